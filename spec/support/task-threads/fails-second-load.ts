/** A pool thread that fails to load on its second start. A task ends the first thread. */
import { threadId, workerData } from 'node:worker_threads';
import { poolFunction } from '../../../workers/run-batch.ts';

/** Worker data of the pool. */
export interface SecondLoad {
  starts: SharedArrayBuffer;
  fails: 'by an error' | 'by its end';
}

// Piscina loads a failing file twice in the same thread, which must count as one start.
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
