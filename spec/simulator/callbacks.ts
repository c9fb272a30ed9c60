import type { CallbackData, Delivery } from '../../db/task-store.ts';
import type { DispatcherOptions } from '../../main/tasks/dispatch/dispatcher.ts';
import type { Outcome } from '../../main/tasks/pool/run.ts';
import type { Clock } from '../../workers/shared/clock.ts';
import type { Disk } from './disk.ts';
import type { Tables } from './history.ts';
import type { SeededRandom } from './random.ts';
import type { World } from './world.ts';

const CALLBACK = 'Each end of a task with a callback URL has exactly one callback.';

export const CALLBACK_HOST = 'example.com';

/** Creates a sender whose receiver answers, fails or hangs. */
export function simulatedSender(clock: Clock, random: SeededRandom): DispatcherOptions['callbacks'] {
  const sending = new Map<Delivery, AbortController>();
  return {
    isUsed: true,
    async run(delivery, { onStart }): Promise<Outcome> {
      const controller = new AbortController();
      sending.set(delivery, controller);
      onStart();
      const hangs = random.chance(0.1);
      const succeeds = !hangs && random.chance(0.7);
      await clock.sleep(hangs ? 10_000 : random.below(200), controller.signal);
      sending.delete(delivery);
      if (controller.signal.aborted) return controller.signal.reason;
      if (succeeds) return { ended: 'returned', output: '{"status":204,"answer":""}' };
      return { ended: 'raised', permanent: false, reason: 'no answer', retryAfterMs: random.below(5000) };
    },
    cancel(delivery) {
      sending.get(delivery)?.abort({ ended: 'cancelled' } satisfies Outcome);
      return false;
    },
    stop() {
      for (const controller of sending.values()) controller.abort({ ended: 'released', reason: 'stopped' });
    },
  };
}

/** Checks the callbacks in the tables, completed or not. Returns their ids. */
export function auditCallbacks(world: World, disk: Disk, { rows, messages }: Tables): Set<string> {
  const { tasks, hasPurged, hasRedriven } = world.history;
  const bodies = disk.read<{
    body: string;
  }>(`SELECT payload AS body FROM tasks WHERE payload LIKE '%"action":"callback"%'
    UNION ALL SELECT body FROM messages WHERE callback_of IS NOT NULL`);
  const callbacks = bodies.map(({ body }): { id: string; data: CallbackData } => JSON.parse(body));
  const ofTasks = Map.groupBy(callbacks, ({ data }) => data.task);
  const completed = new Set(rows.map(({ id }) => id));
  const states = new Map<string, string>(messages.map(({ id, state }) => [id, state]));
  for (const id of ofTasks.keys())
    if (tasks.get(id)?.message.callbackUrl === undefined) world.broken(CALLBACK, `${id} has no callback URL`);
  for (const { id, name, message, isEndTold, state: told } of tasks.values()) {
    if (message.callbackUrl === undefined) continue;
    const count = (status: string) => ofTasks.get(id)?.filter(({ data }) => data.status === status).length ?? 0;
    const [done, cancelled, failed] = [count('completed'), count('cancelled'), count('failed')];
    const state =
      states.get(id) ?? (completed.has(id) ? 'completed' : isEndTold && told === 'cancelled' ? told : 'gone');
    // A purge may delete callbacks that have failed.
    const least = hasPurged ? 0 : 1;
    const isEnded = !states.has(id);
    const isFinal = state === 'completed' || state === 'cancelled';
    const ends = done + cancelled;
    const isRight =
      ends <= Number(isEnded) && ends >= (isFinal ? least : 0) && (state !== 'completed' || cancelled === 0);
    const isFailureRight = failed >= (state === 'failed' ? least : 0) && (failed <= 1 || hasRedriven);
    if (!isRight || !isFailureRight)
      world.broken(CALLBACK, `${name}, ${state}: ${done} completed, ${cancelled} cancelled, ${failed} failed`);
  }
  return new Set(callbacks.map(({ id }) => id));
}
