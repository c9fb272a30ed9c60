import { Histogram, TASK_DURATION_BOUNDS } from '../../../workers/histogram.ts';
import { CounterByLabel } from '../../metrics/counter-by-label.ts';
import type { Settlement } from '../queue/queue.ts';

/** Metrics of settled deliveries. */
export class DispatchMetrics {
  completed = 0;
  cancelled = 0;
  readonly retried = new CounterByLabel(['error', 'crash']);
  /** Number of discarded tasks, by cause. */
  readonly dead = new CounterByLabel(['permanent', 'attempts', 'crashes']);
  /** Time in seconds from a task's acceptance to the start of its first attempt. */
  readonly waits = new Histogram(TASK_DURATION_BOUNDS);

  note(settlement: Settlement): void {
    if (settlement.kind === 'ack') this.completed += 1;
    if (settlement.kind === 'cancel') this.cancelled += 1;
    if (settlement.kind === 'retry') this.retried.count(settlement.failure === 'crash' ? 'crash' : 'error');
    if (settlement.kind === 'discard') this.dead.count(CAUSES[settlement.failure]);
  }

  noteWait(ms: number): void {
    this.waits.observe(Math.max(0, ms) / 1000);
  }
}

const CAUSES = { permanent: 'permanent', transient: 'attempts', crash: 'crashes' } as const;
