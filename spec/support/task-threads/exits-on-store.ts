/**
 * A pool thread that exits while it stores the rows of its first batch. A task with the `action` `wait` waits at the
 * gate.
 */
import { workerData } from 'node:worker_threads';
import { poolFunction } from '../../../workers/run-batch.ts';
import { Gate } from './gate.ts';

const gate = new Gate((workerData as { gate: SharedArrayBuffer }).gate);

export default poolFunction(
  (body) => {
    if (JSON.parse(body).action === 'wait') gate.pass();
  },
  () => process.exit(1),
);
