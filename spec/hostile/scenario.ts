import type { Random } from '../support/seed.ts';
import type { Attacker } from './attacker.ts';
import type { Target } from './target.ts';
import type { Bounds } from './verdict.ts';

/** Setup of the process under attack. Scenarios with the same setup share a process. */
export interface Setup {
  env?: Record<string, string>;
  /** Whether Node's inspector is open, which faults use to make tasks misbehave. */
  inspected?: boolean;
  /** Whether the scenario needs a process of its own. */
  alone?: boolean;
}

/** Context of a fault, which runs in the parent program. */
export interface Stage {
  target: Target;
  random: Random;
  seconds: number;
  /** Counts an injected fault and its outcome. */
  did(outcome: string): void;
}

/** One kind of attack on a real process. Neighbours must not notice it. */
export interface Scenario {
  setup?: Setup;
  /** Runs in a child process of low priority until the time is over. */
  attack?(attacker: Attacker): Promise<void>;
  /** Runs in the parent program, which has access to the threads of the process. */
  fault?(stage: Stage): Promise<void>;
  bounds?: Partial<Bounds>;
  /** Correct outcomes of the attack; any outcome if absent. */
  outcomes?: RegExp;
}

export type Scenarios = Readonly<Record<string, Scenario>>;

export interface ListedScenario extends Scenario {
  name: string;
  group: string;
}
