import { computed, effect, signal, untracked } from '@preact/signals';
import { useEffect, useMemo } from 'preact/hooks';
import { model, paced, status } from './board.ts';
import { type BoardTask, isUnfinished, present } from './board-task.ts';
import { cancelTask, findTask, hasStatus } from './service.ts';
import type { TaskDetail } from './task-detail.ts';

/** Interval of requests for an unfinished task, in case an event was missed. */
const POLL_MS = 2_000;

export type WatchedTask = ReturnType<typeof watch>;

/** Watches a task while the component is rendered. */
export function useTask(id: string): WatchedTask {
  const watched = useMemo(() => watch(id), []);
  useEffect(() => watched.close, []);
  return watched;
}

/** One task with its details, which are requested after each event of the task and each gap. */
function watch(id: string) {
  const answer = signal<TaskDetail>({ id, status: 'loading' });
  /** Error of the last request, or undefined if it succeeded. */
  const error = signal<Error>();
  /** Whether a cancellation was requested, so that an unknown task counts as cancelled. */
  const isCancelling = signal(false);
  /** Version of the known task when the details were requested. */
  const seen = signal('');
  /** Task as known from events and lists. */
  const known = () => model.get(id);
  let isReading = false;
  let isDue = false;

  /** Requests the details. If they are being requested, requests them once more after that. */
  const read = async () => {
    // The service does not know a cancelled task.
    if (known()?.state === 'cancelled') return;
    isDue = true;
    if (isReading) return;
    isReading = true;
    while (isDue) {
      isDue = false;
      seen.value = versionOf(known());
      try {
        answer.value = (await findTask<TaskDetail>(id)) ?? lost();
        error.value = undefined;
        if (!isUnfinished(answer.value.status)) isCancelling.value = false;
      } catch (reason) {
        error.value = reason as Error;
      }
    }
    isReading = false;
  };
  /** Details of a task that the service does not know. */
  const lost = (): TaskDetail => {
    const isCancelled = isCancelling.peek() || answer.peek().status === 'cancelled';
    return { ...answer.peek(), status: isCancelled ? 'cancelled' : 'unknown' };
  };
  const poll = paced(POLL_MS, read);
  const stops = [
    model.keep([id]),
    effect(() => {
      model.gaps.value;
      void untracked(read);
    }),
    effect(() => {
      model.version.value;
      if (versionOf(known()) !== seen.peek()) void untracked(read);
    }),
    effect(() => {
      status.value;
      if (error.peek() !== undefined || isUnfinished(answer.peek().status)) poll();
    }),
  ];

  /** Details by the latest response or event. Its status is `loading` before the first and `unknown` without a task. */
  const detail = computed((): TaskDetail => {
    model.version.value;
    const task = known();
    const details = answer.value;
    if (task?.state === 'cancelled') return { ...details, status: task.state };
    if (task === undefined || details.status === 'cancelled' || details.status === 'unknown') return details;
    const { state, attempt, attempts, reason, limit, progress } = task;
    // Only a response has the result or the details of a failure.
    if (versionOf(task) === seen.value || state === 'completed' || state === 'failed') {
      return details.status === 'running' && state === 'running' ? { ...details, ...present({ progress }) } : details;
    }
    const { started_at_ms, run_at_ms, next_attempt_at_ms } = task;
    const times = { started_at_ms, run_at_ms, next_attempt_at_ms };
    const { progress: _, ...rest } = details;
    return { ...rest, status: state, ...present({ attempt, attempts, reason, limit, progress, ...times }) };
  });

  return {
    detail,
    error,
    isCancelling,
    known,
    read,
    /**
     * Requests the cancellation once. An unknown (404) or finished (409) task is no error, because its state is shown.
     *
     * @returns whether the task is cancelled, or false while its handler still runs
     */
    async cancel(): Promise<boolean> {
      if (isCancelling.peek()) return false;
      isCancelling.value = true;
      try {
        return await cancelTask(id);
      } catch (reason) {
        isCancelling.value = false;
        if (!hasStatus(reason, 404, 409)) throw reason;
        return true;
      } finally {
        void read();
      }
    },
    close() {
      for (const stop of stops) stop();
    },
  };
}

/** Returns a text that changes whenever the task changes, except for its progress. */
function versionOf(task: BoardTask | undefined): string {
  return task === undefined ? '' : [task.state, task.attempt, task.attempts, task.ended_at_ms].join(' ');
}
