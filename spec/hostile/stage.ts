import type { Random } from '../support/seed.ts';
import type { Target } from './target.ts';

/** Access of a fault, which runs in the program itself. */
export interface Stage {
  target: Target;
  random: Random;
  seconds: number;
  /** Counts a fault that was carried out, and its outcome. */
  did(outcome: string): void;
}
