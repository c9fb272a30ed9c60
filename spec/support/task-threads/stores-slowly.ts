/** A pool thread that stores no row until the gate is open. */
import { workerData } from 'node:worker_threads';
import { poolFunction } from '../../../workers/run-batch.ts';
import { Gate } from './gate.ts';

const gate = new Gate((workerData as { gate: SharedArrayBuffer }).gate);

export default poolFunction(
  () => {},
  (rows) => {
    gate.pass();
    return rows.map(() => undefined);
  },
);
