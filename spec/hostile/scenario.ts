import type { Attacker } from './attacker.ts';
import type { Bounds } from './verdict.ts';

/** One kind of attack on a real process. Neighbours must not notice it. */
export interface Scenario {
  /** Settings of the process under attack. Scenarios with the same settings share a process. */
  env?: Record<string, string>;
  /** Runs in a child process of low priority until the time is over. */
  attack?(attacker: Attacker): Promise<void>;
  bounds?: Partial<Bounds>;
  /** Correct outcomes of the attack; any outcome if absent. */
  outcomes?: RegExp;
}

export type Scenarios = Readonly<Record<string, Scenario>>;

export interface ListedScenario extends Scenario {
  name: string;
  group: string;
}
