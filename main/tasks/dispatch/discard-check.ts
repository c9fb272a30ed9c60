import type { Awaitable } from '../../awaitable.ts';
import type { Log } from '../../log.ts';
import type { Delivery, Settlement, SettlementOf } from '../queue/queue.ts';

/** Delay before a failed lookup is repeated. */
const LOOKUP_DELAY_MS = 1000;
/** Most discards that wait for a lookup. Above this, the oldest is evicted, and its task runs again. */
const MAX_WAITING = 1000;

/**
 * Looks up the row of a task before the task is discarded, because a thread or process may have died after storing the row.
 * If the lookup fails, the task is snoozed, and its discard waits here.
 */
export class DiscardCheck {
  readonly #isStored: (id: string) => Awaitable<boolean>;
  readonly #log: Log;
  /** Discards that wait for a lookup, by task id. */
  readonly #waiting = new Map<string, SettlementOf<'discard'>>();

  constructor(isStored: (id: string) => Awaitable<boolean>, log: Log) {
    this.#isStored = isStored;
    this.#log = log;
  }

  /** Removes the discard that waits for a snoozed task. Undefined if the task has been redriven or run by another node since. */
  waitingFor({ message, attempt }: Delivery): SettlementOf<'discard'> | undefined {
    const discard = this.#waiting.get(message.id);
    this.#waiting.delete(message.id);
    return discard?.attempts === attempt ? discard : undefined;
  }

  /** Acknowledges a task that has a row, and discards any other. */
  async settle({ message: { id } }: Delivery, discard: SettlementOf<'discard'>): Promise<Settlement> {
    try {
      return (await this.#isStored(id)) ? { kind: 'ack' } : discard;
    } catch (error) {
      this.#log.error({ err: error, task: id }, 'the row of a failed task cannot be looked up');
      this.#waiting.set(id, discard);
      for (const oldest of this.#waiting.keys()) {
        if (this.#waiting.size <= MAX_WAITING) break;
        this.#waiting.delete(oldest);
      }
      return { kind: 'snooze', delayMs: LOOKUP_DELAY_MS, reason: discard.reason };
    }
  }
}
