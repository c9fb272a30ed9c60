import type { Awaitable } from '../../awaitable.ts';
import type { Log } from '../../log.ts';
import type { Delivery, Settlement, SettlementOf } from '../queue/queue.ts';

/** Delay before a failed lookup of a task's row is repeated. */
const LOOKUP_DELAY_MS = 1000;
/** Maximum number of discards that wait for a repeated lookup. Above it, the oldest is evicted, and its task runs again. */
const MAX_WAITING = 1000;

/**
 * Looks up the row of a task before the task is discarded, because a thread or process may have died after storing the row. If
 * the lookup fails, the task is snoozed (delivered again later), and its discard is kept here until then.
 */
export class DiscardCheck {
  readonly #isStored: (id: string) => Awaitable<boolean>;
  readonly #log: Log;
  /** Discards whose lookup failed and will be repeated, by task id. */
  readonly #waiting = new Map<string, SettlementOf<'discard'>>();

  constructor(isStored: (id: string) => Awaitable<boolean>, log: Log) {
    this.#isStored = isStored;
    this.#log = log;
  }

  /** Removes and returns the discard kept for a task. Undefined if the task was redriven or run by another node since. */
  waitingFor({ message, attempt }: Delivery): SettlementOf<'discard'> | undefined {
    const discard = this.#waiting.get(message.id);
    this.#waiting.delete(message.id);
    return discard?.attempts === attempt ? discard : undefined;
  }

  /** Returns an ack if the task has a row, `discard` if it has none, or a snooze if the row cannot be looked up. */
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
