import { labelled, type MetricsRegistry } from '../metrics/registry.ts';
import type { TasksMetrics } from '../tasks/service.ts';

export function registerTasksMetrics(
  registry: MetricsRegistry,
  { queue, storage, bounds, dispatcher, pool, events, requests, bodies, responses }: TasksMetrics,
): void {
  const { metrics: dispatched } = dispatcher;
  const counts = () => queue.counts();
  const submissions = (withError: string) =>
    requests.count(({ route, method, error }) => route === '/tasks' && method === 'POST' && error === withError);
  registry.counter('tasks_accepted_total', 'Submissions that this process accepted (200 or 202).', () =>
    submissions(''),
  );
  registry.counter(
    'tasks_completed_total',
    'Tasks that this process completed and stored.',
    () => dispatched.completed,
  );
  registry.counter('tasks_retried_total', 'Failed attempts that are retried.', () =>
    labelled('reason', dispatched.retried.entries()),
  );
  registry.counter('tasks_dead_total', 'Tasks that were dead-lettered.', () =>
    labelled('reason', dispatched.dead.entries()),
  );
  registry.counter('tasks_refused_total', 'Submissions that the queue refused.', () =>
    submissions('failed to queue task'),
  );
  registry.gauge('tasks_queue_length', 'Tasks in the queue.', () => {
    const { waiting, delayed, inFlight } = counts();
    return labelled('state', Object.entries({ waiting, delayed, in_flight: inFlight }));
  });
  registry.gauge(
    'tasks_queue_bytes',
    'Memory of the texts of queued tasks; on several nodes, their size in UTF-8.',
    () => counts().bytes,
  );
  registry.gauge('tasks_queue_limit_length', 'Limit of `tasks_queue_length`.', () => bounds.queueMaxLength);
  registry.gauge('tasks_queue_limit_bytes', 'Limit of `tasks_queue_bytes`.', () => bounds.queueMaxBytes);
  registry.gauge(
    'tasks_queue_oldest_age_seconds',
    'Time since the oldest task in the queue was accepted; 0 if the queue is empty.',
    () => {
      const oldest = queue.oldest();
      return oldest === undefined ? 0 : Math.max(0, Date.now() - oldest) / 1000;
    },
  );
  registry.gauge('tasks_request_body_bytes', 'Bytes of request bodies that are not parsed yet.', () => bodies.used);
  registry.gauge('tasks_request_body_limit_bytes', 'Limit of `tasks_request_body_bytes`.', () => bodies.limit);
  registry.gauge(
    'tasks_unread_response_bytes',
    'Bytes of responses that clients have not read yet.',
    () => responses.used,
  );
  registry.gauge('tasks_unread_response_limit_bytes', 'Limit of `tasks_unread_response_bytes`.', () => responses.limit);
  registry.gauge('tasks_event_streams', 'Open streams of `/tasks/events`.', () => events.subscribers);
  registry.gauge('tasks_dead_letters', 'Dead letters in the dead-letter store.', () => counts().dead);
  registry.counter(
    'tasks_dead_letters_evicted_total',
    'Dead letters that this process evicted because of a bound.',
    () => storage.evicted?.() ?? 0,
  );
  registry.gauge('tasks_queue_file_failing', '1 while the file of a durable queue is unusable, else 0.', () =>
    storage.fileProblem?.() === undefined ? 0 : 1,
  );
  registry.gauge(
    'tasks_rows_unsynced',
    'Completed tasks whose rows could not be synced to disk; the next start runs them again.',
    () => storage.unsynced?.().tasks ?? 0,
  );
  registry.histogram('tasks_wait_duration_seconds', 'From the acceptance of a task until its first attempt.', () => [
    [{}, [dispatched.waits]],
  ]);
  registry.histogram('tasks_run_duration_seconds', 'Duration of an attempt, without storing the row.', () => [
    [{}, pool.durations],
  ]);
  registry.gauge('tasks_pool_threads', 'Worker threads that process tasks.', () =>
    labelled('state', Object.entries({ busy: pool.busy, idle: pool.threads - pool.busy })),
  );
}
