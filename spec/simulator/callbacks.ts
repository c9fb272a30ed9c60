import type { CallbackData, Delivery } from '../../db/task-store.ts';
import type { AttemptListener, Outcome } from '../../main/tasks/pool/run.ts';
import type { Clock } from '../../workers/shared/clock.ts';
import type { Disk } from './disk.ts';
import type { KnownTask, Tables } from './history.ts';
import type { SeededRandom } from './random.ts';

export const CALLBACK_HOST = 'example.com';

/** Sender whose receiver answers, fails or hangs. */
export class SimulatedSender {
  readonly isUsed = true;
  readonly #clock: Clock;
  readonly #random: SeededRandom;
  readonly #sending = new Map<Delivery, AbortController>();

  constructor(clock: Clock, random: SeededRandom) {
    this.#clock = clock;
    this.#random = random;
  }

  async run(delivery: Delivery, { onStart }: Pick<AttemptListener, 'onStart'>): Promise<Outcome> {
    const controller = new AbortController();
    this.#sending.set(delivery, controller);
    onStart();
    const hangs = this.#random.chance(0.1);
    const succeeds = !hangs && this.#random.chance(0.7);
    await this.#clock.sleep(hangs ? 10_000 : this.#random.below(200), controller.signal);
    this.#sending.delete(delivery);
    if (controller.signal.aborted) return controller.signal.reason;
    if (succeeds) return { ended: 'returned', output: '{"status":204,"answer":""}' };
    return { ended: 'raised', permanent: false, reason: 'no answer', retryAfterMs: this.#random.below(5000) };
  }

  cancel(delivery: Delivery): boolean {
    this.#sending.get(delivery)?.abort({ ended: 'cancelled' } satisfies Outcome);
    return false;
  }

  stop(): void {
    const released: Outcome = { ended: 'released', reason: 'stopped' };
    for (const controller of this.#sending.values()) controller.abort(released);
  }
}

/** A callback in the tables, completed or not. */
export interface StoredCallback {
  id: string;
  data: CallbackData;
}

export function readCallbacks(disk: Disk): StoredCallback[] {
  const rows = disk.read<{ body: string }>(`SELECT payload AS body FROM tasks WHERE payload LIKE '%"action":"callback"%'
    UNION ALL SELECT body FROM messages WHERE callback_of IS NOT NULL`);
  return rows.map(({ body }) => JSON.parse(body));
}

/** Returns the tables without the callbacks. */
export function withoutCallbacks({ rows, messages }: Tables, callbacks: readonly StoredCallback[]): Tables {
  const ids = new Set(callbacks.map(({ id }) => id));
  const isTask = ({ id }: { id: string }) => !ids.has(id);
  return { rows: rows.filter(isTask), messages: messages.filter(isTask) };
}

/**
 * Returns which task has another number of callbacks than of ends.
 *
 * @param tasks tasks with a callback URL
 * @param hasPurged whether dead letters were purged, callbacks perhaps among them
 * @param hasRedriven whether dead letters were redriven, so that a task may fail again
 */
export function callbackProblem(
  tasks: readonly KnownTask[],
  { rows, messages }: Tables,
  callbacks: readonly StoredCallback[],
  { hasPurged, hasRedriven }: { hasPurged: boolean; hasRedriven: boolean },
): string | undefined {
  const found = Map.groupBy(callbacks, ({ data }) => data.task);
  const completed = new Set(rows.map(({ id }) => id));
  const states = new Map(messages.map(({ id, state }) => [id, state]));
  for (const { id, name, isEndTold, state } of tasks) {
    const own = found.get(id) ?? [];
    const count = (status: string) => own.filter(({ data }) => data.status === status).length;
    found.delete(id);
    const isCancelled = state === 'cancelled' && isEndTold && !states.has(id);
    const [done, cancelled] = [count('completed'), count('cancelled')];
    const isFinal = completed.has(id) || isCancelled;
    const least = isFinal && !hasPurged ? 1 : 0;
    const most = states.has(id) ? 0 : 1;
    const isWrong = done + cancelled < least || done + cancelled > most || (completed.has(id) && cancelled > 0);
    const lacksFailure = states.get(id) === 'failed' && count('failed') === 0 && !hasPurged;
    const isRepeated = count('failed') > 1 && !hasRedriven;
    if (isWrong || lacksFailure || isRepeated)
      return `${name}, ${states.get(id) ?? state}: ${done} completed, ${cancelled} cancelled, ${count('failed')} failed`;
  }
  const [unknown] = found.keys();
  return unknown && `${unknown} has no callback URL`;
}
