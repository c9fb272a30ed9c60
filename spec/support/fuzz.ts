import { randomInt } from 'node:crypto';

/**
 * Parameters for a fast-check run with input that differs each time. The seed is printed, and taken from the environment
 * variable FUZZ_SEED where that is set, so that a failure can be replayed.
 */
export function fuzz(numRuns: number): { seed: number; numRuns: number } {
  const seed = process.env.FUZZ_SEED ? Number(process.env.FUZZ_SEED) : randomInt(2 ** 31);
  console.log(`    FUZZ_SEED=${seed}`);
  return { seed, numRuns };
}
