import type { RequestFigures } from '../figures/requests.ts';
import type { TasksFigures } from '../tasks/service.ts';
import { labelled, type Metrics } from './metrics.ts';

/** Registers the metrics of service B. */
export function tasksMetrics(
  metrics: Metrics,
  { queue, storage, bounds, dispatcher, pool, events, requests, bodies, responses }: TasksFigures,
): void {
  const { metrics: dispatched } = dispatcher;
  const counts = () => queue.counts();
  metrics.counter('tasks_accepted_total', 'Submissions that this process accepted (200 or 202).', () =>
    submissions(requests, ''),
  );
  metrics.counter('tasks_completed_total', 'Tasks that this process completed and stored.', () => dispatched.completed);
  metrics.counter('tasks_retried_total', 'Failed attempts that are retried.', () =>
    labelled('reason', dispatched.retried.entries()),
  );
  metrics.counter('tasks_dead_total', 'Tasks that were dead-lettered.', () =>
    labelled('reason', dispatched.dead.entries()),
  );
  metrics.counter('tasks_refused_total', 'Submissions that the queue refused.', () =>
    submissions(requests, 'failed to queue task'),
  );
  metrics.gauge('tasks_queue_length', 'Tasks in the queue.', () => {
    const { waiting, delayed, inFlight } = counts();
    return labelled('state', Object.entries({ waiting, delayed, in_flight: inFlight }));
  });
  metrics.gauge(
    'tasks_queue_bytes',
    'Memory of the texts of queued tasks; on several nodes, their size in UTF-8.',
    () => counts().bytes,
  );
  metrics.gauge('tasks_queue_limit_length', 'Limit of `tasks_queue_length`.', () => bounds.queueMaxLength);
  metrics.gauge('tasks_queue_limit_bytes', 'Limit of `tasks_queue_bytes`.', () => bounds.queueMaxBytes);
  metrics.gauge(
    'tasks_queue_oldest_age_seconds',
    'Time since the oldest task in the queue was accepted; 0 if the queue is empty.',
    () => {
      const oldest = queue.oldest();
      return oldest === undefined ? 0 : Math.max(0, Date.now() - oldest) / 1000;
    },
  );
  metrics.gauge('tasks_request_body_bytes', 'Bytes of request bodies that are not parsed yet.', () => bodies.used);
  metrics.gauge('tasks_request_body_limit_bytes', 'Limit of `tasks_request_body_bytes`.', () => bodies.limit);
  metrics.gauge(
    'tasks_unread_response_bytes',
    'Bytes of responses that clients have not read yet.',
    () => responses.used,
  );
  metrics.gauge('tasks_unread_response_limit_bytes', 'Limit of `tasks_unread_response_bytes`.', () => responses.limit);
  metrics.gauge('tasks_event_streams', 'Open streams of `/tasks/events`.', () => events.followers);
  metrics.gauge('tasks_dead_letters', 'Dead letters in the dead-letter store.', () => counts().dead);
  metrics.counter(
    'tasks_dead_letters_evicted_total',
    'Dead letters that this process evicted because of a bound.',
    () => storage.evicted?.() ?? 0,
  );
  metrics.gauge('tasks_queue_file_failing', '1 while the file of a durable queue is unusable, else 0.', () =>
    storage.fileProblem?.() === undefined ? 0 : 1,
  );
  metrics.gauge(
    'tasks_rows_unsynced',
    'Completed tasks whose rows could not be synced to disk; the next start runs them again.',
    () => storage.unsynced?.().tasks ?? 0,
  );
  metrics.histogram('tasks_wait_duration_seconds', 'From the acceptance of a task until its first attempt.', () => [
    [{}, [dispatched.waits]],
  ]);
  metrics.histogram('tasks_run_duration_seconds', 'Duration of an attempt, without storing the row.', () => [
    [{}, pool.runs],
  ]);
  metrics.gauge('tasks_pool_threads', 'Worker threads that process tasks.', () =>
    labelled('state', Object.entries({ busy: pool.busy, idle: pool.threads - pool.busy })),
  );
}

/** Returns the number of submissions with the error `withError`, or of successful ones if it is empty. */
function submissions(requests: RequestFigures, withError: string): number {
  return [...requests.series()]
    .filter(({ route, method, error }) => route === '/tasks' && method === 'POST' && error === withError)
    .reduce((sum, { durations }) => sum + durations.cumulative().count, 0);
}
