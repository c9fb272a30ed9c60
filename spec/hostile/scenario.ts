import type { Attacker } from './attacker.ts';
import type { Bounds } from './bounds.ts';
import type { Stage } from './stage.ts';

/** How the process under attack is started. Scenarios with the same setup share a process. */
export interface Setup {
  /** Settings beside the defaults. */
  env?: Record<string, string>;
  /** Limit of open files (`ulimit -n`). */
  openFiles?: number;
  /** Whether Node's inspector is open, by which threads are killed and tasks misbehave. */
  inspected?: boolean;
  /** Standard output: read by the program, a pipe that is full and never read, or `/dev/full`. */
  output?: 'read' | 'stalled' | 'full';
  /** Size of a file system of its own for `DATA_DIR`. */
  diskMb?: number;
  /** Whether no other scenario may use the process. */
  alone?: boolean;
}

/** One kind of attack on a real process, beside neighbours that must not notice it. */
export interface Scenario {
  name: string;
  group: string;
  setup?: Setup;
  /** Runs in a child process of low priority until the time is over. */
  attack?(attacker: Attacker): Promise<void>;
  /** Runs in the program itself, which has access to the process, its threads and its files. */
  fault?(stage: Stage): Promise<void>;
  /** Bounds other than the usual ones. */
  bounds?: Partial<Bounds>;
  /** Outcomes of the attack that are correct; any outcome where absent. */
  outcomes?: RegExp;
}
