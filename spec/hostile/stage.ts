import type { Random } from '../support/seed.ts';
import type { Target } from './target.ts';

/** What a fault in the program itself works with. */
export interface Stage {
  target: Target;
  random: Random;
  seconds: number;
  /** Counts a fault that was carried out, and its outcome. */
  did(outcome: string): void;
}
