import type { Mark } from './attacker.ts';
import { type Child, startChild } from './child.ts';

export interface AttackStart {
  /** Name of the scenario. */
  name: string;
  mark: Mark;
  seed: number;
  seconds: number;
}

export interface AttackEnd {
  /** Number of requests, frames and connections that were sent. */
  actions: number;
  outcomes: Record<string, number>;
  /** Stack of an error thrown by the attack itself. */
  error?: string | undefined;
}

/** Starts the process in which attacks run. */
export function startAttackers(): Promise<Child<AttackStart, AttackEnd>> {
  return startChild('attacker-process.ts');
}
