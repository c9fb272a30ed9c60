import { crc32 } from 'node:zlib';
import { type Random, randomFrom } from '../support/seed.ts';

/** Random numbers of a scenario. They depend only on the seed and the scenario's name. */
export function randomOf(name: string, seed: number): Random {
  return randomFrom(crc32(name), seed);
}
