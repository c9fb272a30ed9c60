/** A pool thread that cannot be loaded the second time it is started; a task ends the first one. */
import { threadId, workerData } from 'node:worker_threads';
import { poolFunction } from '../../../workers/task-handler.ts';

/** What a spec starts the pool with. */
export interface SecondLoad {
  starts: SharedArrayBuffer;
  fails: 'by an error' | 'by its end';
}

// A file that fails is loaded once more in the same thread, which is the same start.
const [COUNT, LATEST_THREAD] = [0, 1];
const { starts, fails } = workerData as SecondLoad;
const cells = new Int32Array(starts);
if (Atomics.exchange(cells, LATEST_THREAD, threadId) !== threadId) Atomics.add(cells, COUNT, 1);
if (Atomics.load(cells, COUNT) === 2) {
  if (fails === 'by its end') process.exit(1);
  throw new Error('not this time');
}

export default poolFunction(() => {
  if (Atomics.load(cells, COUNT) === 1) process.exit(1);
});
