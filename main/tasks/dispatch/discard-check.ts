import type { Awaitable } from '../../awaitable.ts';
import type { Log } from '../../log.ts';
import type { Delivery, Settlement, SettlementOf } from '../queue/queue.ts';

/** Delay before a failed lookup of a task's row is repeated. */
const LOOKUP_DELAY_MS = 1000;
/** Maximum number of settlements to keep. If there are more, the oldest is dropped, and its task runs again. */
const MAX_WAITING = 1000;

/** Settlement that ends a task without storing a row. */
type EndWithoutRow = SettlementOf<'discard' | 'cancel'>;

/**
 * Looks up the row of a task before the task is discarded or cancelled, because a thread or process may have stored the
 * row just before it died. If the lookup fails, the task is snoozed and its row is looked up again later.
 */
export class DiscardCheck {
  readonly #isStored: (id: string) => Awaitable<boolean>;
  readonly #log: Log;
  /** Settlements of the tasks that are snoozed until the next lookup, by task id. */
  readonly #waiting = new Map<string, { settlement: EndWithoutRow; attempts: number }>();

  constructor(isStored: (id: string) => Awaitable<boolean>, log: Log) {
    this.#isStored = isStored;
    this.#log = log;
  }

  /**
   * Removes and returns the settlement kept for a task. Returns undefined if there is none, or if the task has been
   * attempted since.
   */
  waitingFor({ message, attempt }: Delivery): EndWithoutRow | undefined {
    const waiting = this.#waiting.get(message.id);
    this.#waiting.delete(message.id);
    return waiting?.attempts === attempt ? waiting.settlement : undefined;
  }

  /** Returns an ack if the task has a row, `settlement` if the task has no row, or a snooze if the lookup fails. */
  async settle({ message: { id }, attempt }: Delivery, settlement: EndWithoutRow): Promise<Settlement> {
    try {
      return (await this.#isStored(id)) ? { kind: 'ack' } : settlement;
    } catch (error) {
      this.#log.error({ err: error, task: id }, 'the row of a failed task cannot be looked up');
      const isDiscard = settlement.kind === 'discard';
      this.#waiting.set(id, { settlement, attempts: isDiscard ? settlement.attempts : attempt });
      const [oldest = id] = this.#waiting.keys();
      if (this.#waiting.size > MAX_WAITING) this.#waiting.delete(oldest);
      return { kind: 'snooze', delayMs: LOOKUP_DELAY_MS, reason: isDiscard ? settlement.reason : 'cancelled' };
    }
  }
}
