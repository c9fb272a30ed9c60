/** A pool thread that exits at its first task. Each later thread waits at the gate while it loads. */
import { workerData } from 'node:worker_threads';
import { poolFunction } from '../../../workers/run-batch.ts';
import { Gate } from './gate.ts';

const { gate, starts } = workerData as { gate: SharedArrayBuffer; starts: SharedArrayBuffer };
const isFirst = Atomics.add(new Int32Array(starts), 0, 1) === 0;
if (!isFirst) new Gate(gate).pass();

export default poolFunction(() => {
  if (isFirst) process.exit(1);
});
