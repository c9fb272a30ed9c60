/**
 * A pool thread that counts the tasks it has run and the rows it has stored in shared memory. A task with the `action` `terminate`
 * records that the thread is about to be terminated, as the main thread would.
 */
import { workerData } from 'node:worker_threads';
import { type PoolThreadData, TERMINATED } from '../../../workers/messages.ts';
import { poolFunction } from '../../../workers/run-batch.ts';

const { counts, runningTasks } = workerData as PoolThreadData & { counts: SharedArrayBuffer };
const cells = new Int32Array(counts);

export default poolFunction(
  (body) => {
    const { action } = JSON.parse(body);
    if (action === 'terminate') new Int32Array(runningTasks).fill(TERMINATED);
    Atomics.add(cells, action === 'terminate' ? 0 : 1, 1);
  },
  (rows) => {
    Atomics.add(cells, 2, rows.length);
    return rows.map(() => undefined);
  },
);
