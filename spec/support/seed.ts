import { randomInt } from 'node:crypto';
import { SeededRandom } from './random.ts';

/** Seed of all random specs in this run: `FAULT_SEED`, or a random number. The specs name it in their titles. */
export const seed = Number(process.env.FAULT_SEED ?? randomInt(2 ** 31));

export const seedNote = `(FAULT_SEED=${seed})`;

export type Random = Pick<SeededRandom, 'below' | 'pick'>;

/** @param stream distinguishes the sequences of one seed */
export function randomFrom(stream: number, from = seed): Random {
  return new SeededRandom(`${from}/${stream}`);
}
