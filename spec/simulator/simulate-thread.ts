/** Worker thread of `npm run simulate`: runs one seed after another, and answers each with its violation. */
import { parentPort, workerData } from 'node:worker_threads';
import { simulate } from './seed.ts';
import type { SimulationOptions } from './simulation.ts';

// The product makes errors by the thousand.
Error.stackTraceLimit = 0;

const { steps, faults } = workerData as Pick<SimulationOptions, 'steps' | 'faults'>;

parentPort?.on('message', async (seed: number | 'end') => {
  // Removes the files of the thread, unlike `terminate`.
  if (seed === 'end') process.exit();
  parentPort?.postMessage((await simulate({ seed, steps, faults })).violation);
});
