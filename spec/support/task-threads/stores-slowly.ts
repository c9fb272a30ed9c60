/** A pool thread whose rows take 300 ms to be stored. */
import { setTimeout } from 'node:timers/promises';
import { poolFunction } from '../../../workers/task-handler.ts';

export default poolFunction(
  () => {},
  async (rows) => {
    await setTimeout(300);
    return rows.map(() => undefined);
  },
);
