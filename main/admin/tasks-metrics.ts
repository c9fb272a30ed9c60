import type { RequestFigures } from '../figures/requests.ts';
import type { TasksFigures } from '../tasks/service.ts';
import { labelled, type Metrics } from './metrics.ts';

/** What service B counts. */
export function tasksMetrics(
  metrics: Metrics,
  { queue, storage, bounds, dispatcher, pool, events, requests, bodies, responses }: TasksFigures,
): void {
  const { figures } = dispatcher;
  const counts = () => queue.counts();
  metrics.counter('tasks_accepted_total', 'Submissions that this process has answered with 200 or 202.', () =>
    submissions(requests, ''),
  );
  metrics.counter(
    'tasks_completed_total',
    'Tasks that this process has done, each with its row.',
    () => figures.completed,
  );
  metrics.counter('tasks_retried_total', 'Attempts that failed and are followed by another.', () =>
    labelled('reason', figures.retried.entries()),
  );
  metrics.counter('tasks_dead_total', 'Tasks that were given up.', () => labelled('reason', figures.dead.entries()));
  metrics.counter('tasks_refused_total', 'Submissions that the queue did not take.', () =>
    submissions(requests, 'failed to queue task'),
  );
  metrics.gauge('tasks_queue_length', 'Tasks in the queue.', () => {
    const { waiting, delayed, inFlight } = counts();
    return labelled('state', Object.entries({ waiting, delayed, in_flight: inFlight }));
  });
  metrics.gauge('tasks_queue_bytes', 'Bytes of the tasks in the queue.', () => counts().bytes);
  metrics.gauge('tasks_queue_limit_length', 'Tasks that the queue takes.', () => bounds.queueMaxLength);
  metrics.gauge('tasks_queue_limit_bytes', 'Bytes that the queue takes.', () => bounds.queueMaxBytes);
  metrics.gauge(
    'tasks_queue_oldest_age_seconds',
    'Since the oldest task in the queue was accepted; 0 where it is empty.',
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
  metrics.gauge('tasks_event_streams', 'Clients that follow `/tasks/events`.', () => events.followers);
  metrics.gauge('tasks_dead_letters', 'Tasks that were given up, and are kept.', () => counts().dead);
  metrics.counter(
    'tasks_dead_letters_evicted_total',
    'Dead letters that this process evicted because of a bound.',
    () => storage.evicted?.() ?? 0,
  );
  metrics.gauge('tasks_queue_file_failing', '1 while the file of a durable queue cannot be used, else 0.', () =>
    storage.fileProblem?.() === undefined ? 0 : 1,
  );
  metrics.histogram('tasks_wait_duration_seconds', 'From the acceptance of a task until its first attempt.', () => [
    [{}, [figures.waits]],
  ]);
  metrics.histogram('tasks_run_duration_seconds', 'Attempts at a task, storing its row not included.', () => [
    [{}, pool.runs],
  ]);
  metrics.gauge('tasks_pool_threads', 'Threads that work tasks off.', () =>
    labelled('state', Object.entries({ busy: dispatcher.busy, idle: pool.threads - dispatcher.busy })),
  );
}

/** How many submissions were answered with that error; with none, where it is empty. */
function submissions(requests: RequestFigures, withError: string): number {
  return [...requests.series()]
    .filter(({ route, method, error }) => route === '/tasks' && method === 'POST' && error === withError)
    .reduce((sum, { durations }) => sum + durations.cumulative().count, 0);
}
