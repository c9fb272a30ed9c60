import { Distribution, DURATIONS } from '../../figures/distribution.ts';
import { Tally } from '../../figures/tally.ts';
import type { Settlement } from '../queue/queue.ts';

/** Metrics of the deliveries that the dispatcher has settled. */
export class DispatchMetrics {
  /** Tasks acknowledged by this process. */
  completed = 0;
  /** Failed attempts that are retried, by what failed. */
  readonly retried = new Tally(['error', 'crash']);
  /** Discarded tasks, by why. */
  readonly dead = new Tally(['permanent', 'attempts', 'crashes']);
  /** From a task's acceptance until its first attempt, in seconds. */
  readonly waits = new Distribution(DURATIONS);

  note(settlement: Settlement): void {
    if (settlement.kind === 'ack') this.completed += 1;
    if (settlement.kind === 'retry') this.retried.count(settlement.failure === 'crash' ? 'crash' : 'error');
    if (settlement.kind === 'discard') this.dead.count(CAUSES[settlement.failure]);
  }

  noteWait(ms: number): void {
    this.waits.observe(Math.max(0, ms) / 1000);
  }
}

const CAUSES = { permanent: 'permanent', transient: 'attempts', crash: 'crashes' } as const;
