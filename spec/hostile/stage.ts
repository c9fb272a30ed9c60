import type { Random } from '../support/seed.ts';
import type { Target } from './target.ts';

/** Context of a fault, which runs in the parent program. */
export interface Stage {
  target: Target;
  random: Random;
  seconds: number;
  /** Counts an injected fault and its outcome. */
  did(outcome: string): void;
}
