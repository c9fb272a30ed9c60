import { randomInt } from 'node:crypto';

/** What the random specs of this run begin from: another each time, or `FAULT_SEED`. They name it in their titles. */
export const seed = Number(process.env.FAULT_SEED ?? randomInt(2 ** 31));

/** For the title of a spec that follows {@link seed}. */
export const seedNote = `(FAULT_SEED=${seed})`;

/** A sequence of random numbers that is the same for the same seed. */
export interface Random {
  /** A whole number from 0 to `bound` - 1. */
  below(bound: number): number;
  pick<T>(choices: readonly T[]): T;
}

/** Marsaglia's xorshift, 32 bits. @param stream tells the sequences of one seed apart */
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
