import { randomInt } from 'node:crypto';

/** Seed of all random specs in this run: `FAULT_SEED`, or a random number. The specs name it in their titles. */
export const seed = Number(process.env.FAULT_SEED ?? randomInt(2 ** 31));

export const seedNote = `(FAULT_SEED=${seed})`;

export interface Random {
  /** Returns a whole number from 0 to `bound` - 1. */
  below(bound: number): number;
  pick<T>(choices: readonly T[]): T;
}

/** Marsaglia's 32-bit xorshift generator. @param stream distinguishes the sequences of one seed */
export function randomFrom(stream: number, from = seed): Random {
  let state = (from ^ Math.imul(stream + 1, 0x9e3779b9)) | 0 || 1;
  const below = (bound: number) => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) % bound;
  };
  return { below, pick: (choices) => choices[below(choices.length)] as (typeof choices)[number] };
}
