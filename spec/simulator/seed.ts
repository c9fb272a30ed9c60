import { simulateFile } from './file.ts';
import { simulateNodes } from './nodes.ts';
import type { SimulationOptions, SimulationResult } from './simulation.ts';

/** Runs one seed. With all faults, every fourth seed has several nodes. */
export function simulate(options: SimulationOptions): Promise<SimulationResult> {
  const isSeveral = options.faults === 'nodes' || (options.faults === 'all' && options.seed % 4 === 0);
  return isSeveral ? simulateNodes(options) : simulateFile(options);
}
