import { Distribution, DURATIONS } from '../figures/distribution.ts';
import { Tally } from '../figures/tally.ts';

/** What happened to the tasks that were taken out of the queue. */
export class TaskFigures {
  /** Tasks that were acknowledged, by this process. */
  completed = 0;
  /** Attempts that are followed by another, by what failed. */
  readonly retried = new Tally(['error', 'crash']);
  /** Tasks that were given up, by why. */
  readonly dead = new Tally(['permanent', 'attempts', 'crashes']);
  /** From a task's acceptance to the beginning of its first attempt. */
  readonly waits = new Distribution(DURATIONS);
}
