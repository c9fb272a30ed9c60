import type { Awaitable } from '../../awaitable.ts';
import type { Log } from '../../log.ts';
import type { Delivery, Settlement, SettlementOf } from '../queue/queue.ts';

const LOOKUP_RETRY_MS = 1000;
/** Maximum number of settlements postponed by a failed lookup. The oldest is evicted, and its task runs again. */
const MAX_POSTPONED = 1000;

type EndWithoutRow = SettlementOf<'discard' | 'cancel'>;

/** Acks a failed or cancelled task if its row exists, because a thread may have stored the row just before it died. */
export class DiscardCheck {
  readonly #isStored: (id: string) => Awaitable<boolean>;
  readonly #log: Log;
  readonly #postponed = new Map<string, { settlement: EndWithoutRow; attempts: number }>();

  constructor(isStored: (id: string) => Awaitable<boolean>, log: Log) {
    this.#isStored = isStored;
    this.#log = log;
  }

  /** Returns the settlement that `settle` postponed by a snooze, or undefined if an attempt was made since then. */
  takePostponed({ message, attempt }: Delivery): EndWithoutRow | undefined {
    const postponed = this.#postponed.get(message.id);
    this.#postponed.delete(message.id);
    return postponed?.attempts === attempt ? postponed.settlement : undefined;
  }

  /** Returns an ack if the task has a row, `settlement` if the task has no row, or a snooze if the lookup fails. */
  async settle({ message: { id }, attempt }: Delivery, settlement: EndWithoutRow): Promise<Settlement> {
    try {
      return (await this.#isStored(id)) ? { kind: 'ack' } : settlement;
    } catch (error) {
      this.#log.error({ err: error, task: id }, 'the row of a failed task cannot be looked up');
      const isDiscard = settlement.kind === 'discard';
      this.#postponed.set(id, { settlement, attempts: isDiscard ? settlement.attempts : attempt });
      const [oldest = id] = this.#postponed.keys();
      if (this.#postponed.size > MAX_POSTPONED) this.#postponed.delete(oldest);
      return { kind: 'snooze', delayMs: LOOKUP_RETRY_MS, reason: isDiscard ? settlement.reason : 'cancelled' };
    }
  }
}
