import { crc32 } from 'node:zlib';
import { type Random, randomFrom } from '../support/seed.ts';

/** Random numbers of a scenario: the same for the same seed, whichever other scenarios run. */
export function randomOf(name: string, seed: number): Random {
  return randomFrom(crc32(name), seed);
}
