import { labelled, type MetricsTable } from '../metrics/metrics-table.ts';
import type { TasksMetrics } from '../tasks/service.ts';

export function tasksMetrics(sources: TasksMetrics): MetricsTable {
  const { queue, storage, bounds, dispatcher, pool, events, requests, bodies, responses } = sources;
  const { metrics: dispatched } = dispatcher;
  const cancelledAtOnce = () =>
    requests.count(({ route, method, status }) => route === '/tasks/:id' && method === 'DELETE' && status === 204);
  const submissions = (withError: string) =>
    requests.count(({ route, method, error }) => route === '/tasks' && method === 'POST' && error === withError);
  const lengths = () => {
    const { waiting, delayed, inFlight } = queue.counts();
    return labelled('state', Object.entries({ waiting, delayed, in_flight: inFlight }));
  };
  const oldestAge = () => {
    const oldest = queue.oldest();
    return oldest === undefined ? 0 : Math.max(0, Date.now() - oldest) / 1000;
  };
  const threads = () => labelled('state', Object.entries({ busy: pool.busy, idle: pool.threads - pool.busy }));
  const evicted = () => storage.evicted?.() ?? 0;
  const fileFailing = () => (storage.fileProblem?.() === undefined ? 0 : 1);
  const unsynced = () => storage.unsynced?.().tasks ?? 0;
  return {
    counter: {
      tasks_accepted_total: ['Submissions that this process accepted (200 or 202).', () => submissions('')],
      tasks_completed_total: ['Tasks that this process completed and stored.', () => dispatched.completed],
      tasks_retried_total: ['Failed attempts that are retried.', () => labelled('reason', dispatched.retried)],
      tasks_dead_total: ['Dead-lettered tasks.', () => labelled('reason', dispatched.dead)],
      tasks_cancelled_total: ['Tasks that this process cancelled.', () => cancelledAtOnce() + dispatched.cancelled],
      tasks_refused_total: ['Submissions that the queue refused.', () => submissions('failed to queue task')],
      tasks_dead_letters_evicted_total: ['Dead letters that this process evicted because of a limit.', evicted],
    },
    gauge: {
      tasks_queue_length: ['Tasks in the queue.', lengths],
      tasks_queue_bytes: [
        'Memory used by the JSON text of queued tasks; with several nodes, its size in UTF-8.',
        () => queue.counts().bytes,
      ],
      tasks_queue_limit_length: ['Limit of `tasks_queue_length`.', () => bounds.maxLength],
      tasks_queue_limit_bytes: ['Limit of `tasks_queue_bytes`.', () => bounds.maxBytes],
      tasks_queue_oldest_age_seconds: [
        'Time since the oldest task in the queue was accepted; 0 if the queue is empty.',
        oldestAge,
      ],
      tasks_paused: ['Whether the queue is paused: 1 or 0.', () => Number(queue.paused)],
      tasks_request_body_bytes: ['Bytes of request bodies that have not been parsed yet.', () => bodies.used],
      tasks_request_body_limit_bytes: ['Limit of `tasks_request_body_bytes`.', () => bodies.limit],
      tasks_unread_response_bytes: ['Bytes of responses that clients have not read yet.', () => responses.used],
      tasks_unread_response_limit_bytes: ['Limit of `tasks_unread_response_bytes`.', () => responses.limit],
      tasks_event_streams: ['Open streams of `/tasks/events`.', () => events.subscribers],
      tasks_dead_letters: ['Dead letters in the dead-letter store.', () => queue.counts().dead],
      tasks_queue_file_failing: ['Whether the file of a durable queue is unusable: 1 or 0.', fileFailing],
      tasks_rows_unsynced: [
        'Completed tasks whose rows could not be synced to disk. They run again after a restart.',
        unsynced,
      ],
      tasks_pool_threads: ['Worker threads that process tasks.', threads],
    },
    histogram: {
      tasks_wait_duration_seconds: [
        'Time from the acceptance of a task to its first attempt.',
        () => [[{}, [dispatched.waits]]],
      ],
      tasks_run_duration_seconds: ['Duration of an attempt, excluding row storage.', () => [[{}, pool.durations]]],
    },
  };
}
