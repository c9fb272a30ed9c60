import { computed, signal } from '@preact/signals';
import { useEffect, useMemo } from 'preact/hooks';
import { model, status } from './board.ts';
import { type BoardTask, isUnfinished } from './board-task.ts';
import { client, found, hasStatus, repeated } from './service.ts';
import type { TaskDetail } from './task-detail.ts';

/** Interval of requests for an unfinished task, in case an event was missed. */
const POLL_MS = 2_000;

export type WatchedTask = ReturnType<typeof watch>;

export function useTask(id: string): WatchedTask {
  const watched = useMemo(() => watch(id), []);
  useEffect(() => watched.close, []);
  return watched;
}

/** One task with its details, which are requested after each event of the task and each gap. */
function watch(id: string) {
  /** Whether a cancellation was requested, so that an unknown task counts as cancelled. */
  const isCancelling = signal(false);
  /** Version of the known task when the details were requested. */
  let seen = '';
  const known = () => model.get(id);
  const task = client.task(id);
  const request = async (): Promise<TaskDetail> => {
    seen = versionOf(known());
    const state: TaskDetail | undefined = await found(task.get());
    // A response may be older than the cancellation, whose event the model keeps.
    if (state === undefined) model.forget((each) => each.id === id && each.state !== 'cancelled');
    const earlier = answer.peek();
    const isCancelled = earlier.status === 'cancelled' || (state === undefined && isCancelling.peek());
    const newest = !isCancelled && state ? state : { ...earlier, status: isCancelled ? 'cancelled' : 'unknown' };
    if (!isUnfinished(newest.status)) isCancelling.value = false;
    return newest;
  };
  const { answer, problem, read, poll } = repeated<TaskDetail>(POLL_MS, request, { id, status: 'loading' });

  /** Details of the latest response, with the progress of the latest event. The status is `loading` before the first response. */
  const detail = computed((): TaskDetail => {
    model.version.value;
    const { state, progress } = known() ?? {};
    if (state === 'cancelled') return { ...answer.value, status: state };
    const isRunning = state === 'running' && answer.value.status === 'running';
    return isRunning && progress !== undefined ? { ...answer.value, progress } : answer.value;
  });
  /** Requests the details, unless the task is cancelled, because the service does not know it then. */
  const readAgain = () => {
    if (![known()?.state, answer.peek().status].includes('cancelled')) void read();
  };
  const stops = [
    model.keep([id]),
    model.gaps.subscribe(readAgain),
    model.version.subscribe(() => versionOf(known()) !== seen && readAgain()),
    status.subscribe(() => (problem.peek() !== '' || isUnfinished(answer.peek().status)) && poll()),
  ];

  return {
    detail,
    problem,
    isCancelling,
    known,
    /**
     * Requests the cancellation once. An unknown (404) or finished (409) task is no error, because its state is shown.
     *
     * @returns whether the task is cancelled, or false while its handler still runs
     */
    async cancel(): Promise<boolean> {
      if (isCancelling.peek()) return false;
      isCancelling.value = true;
      try {
        const isCancelled = await task.cancel();
        if (isCancelled) answer.value = { ...answer.peek(), status: 'cancelled' };
        return isCancelled;
      } catch (reason) {
        isCancelling.value = false;
        if (!hasStatus(reason, 404, 409)) throw reason;
        void read();
        return true;
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
