import { collectDefaultMetrics, type Metric, Registry } from 'prom-client';
import type { QueueCounts } from '../../db/task-store.ts';
import { systemClock } from '../../workers/shared/clock.ts';
import type { Histogram } from '../../workers/shared/histogram.ts';
import type { LogOutput } from '../log/log.ts';
import { type Labelled, labelled, type MetricsTable } from '../metrics/metrics-table.ts';
import type { RequestMetrics, RequestSeries } from '../metrics/request-metrics.ts';
import type { TasksService } from '../tasks/service.ts';
import type { TickerService } from '../ticker/service.ts';

export function tickerMetrics({ relay, ticker, tokens, requests }: TickerService['metrics']): MetricsTable {
  const { metrics } = relay;
  const isExchange = ({ route, method }: RequestSeries) => route === '/auth/token' && method === 'POST';
  const issued = () => requests.count((series) => isExchange(series) && series.status === 200);
  const refused = () =>
    [...requests.series()]
      .filter((series) => isExchange(series) && series.error !== '')
      .map(({ error, durations }) => [{ reason: error }, durations.cumulative().count] as const);
  const { source } = ticker;
  const failures = () =>
    labelled('reason', Object.entries({ error: source.counts.failed, stalled: source.counts.stalled }));
  return {
    gauge: {
      ticker_websocket_connections: ['Open WebSocket connections.', () => relay.size],
      ticker_subscriptions: ['Handlers subscribed to the ticker.', () => ticker.subscriptions],
      ticker_price_source_failing: [
        'Whether the price source is failing: 1 or 0.',
        () => (source.problem === undefined ? 0 : 1),
      ],
      auth_tokens_live: ['Valid tokens.', () => tokens.store.size],
      auth_tokens_limit: ['Limit of `auth_tokens_live`.', () => tokens.store.maxTokens],
    },
    counter: {
      ticker_frames_sent_total: ['Text frames written to sockets.', () => metrics.framesSent],
      ticker_frames_skipped_total: ['Ticks not sent to slow consumers.', () => metrics.framesSkipped],
      ticker_websocket_upgrades_total: ['Handshakes, by outcome.', () => labelled('outcome', metrics.upgrades)],
      ticker_websocket_closes_total: ['Closed connections, by close code.', () => labelled('code', metrics.closes)],
      ticker_thread_restarts_total: ['Restarts of the ticker thread.', () => ticker.restarts],
      ticker_price_source_failures_total: ['Failed and stalled calls to the price source, by reason.', failures],
      ticker_prices_refused_total: [
        'Prices refused because they were not positive numbers, or because the number of prices was wrong.',
        () => source.counts.refused,
      ],
      auth_tokens_issued_total: ['API keys exchanged for a token.', issued],
      auth_tokens_refused_total: ['Refused API key exchanges, by error.', refused],
    },
    histogram: {
      ticker_tick_lateness_seconds: [
        'Time from when a tick was due until it was written to the last socket.',
        () => [[{}, [ticker.lateness]]],
      ],
    },
  };
}

/** Returns the metrics of the task service. Those of the queue show its last counts. */
export function tasksMetrics(sources: TasksService['metrics']): MetricsTable {
  const { queue, dispatcher, pool, callbacks, events, scheduler, requests, bodies, responses } = sources;
  const { metrics: dispatched } = dispatcher;
  const submissions = (withError: string) =>
    requests.count(({ route, method, error }) => route === '/tasks' && method === 'POST' && error === withError);
  // Absent until the queue has been counted.
  const counted = <Value>(read: (counts: QueueCounts) => Value) =>
    queue.lastCounts === undefined ? noSamples : read(queue.lastCounts);
  const lengths = () =>
    counted(({ waiting, limited, scheduled, retrying: delayed, inFlight }) =>
      labelled('state', Object.entries({ waiting, limited, scheduled, delayed, in_flight: inFlight })),
    );
  const oldestAge = () =>
    counted(({ oldest }) => (oldest === undefined ? 0 : Math.max(0, systemClock.now() - oldest) / 1000));
  const threads = () => labelled('state', Object.entries({ busy: pool.busy, idle: pool.threads - pool.busy }));
  return {
    counter: {
      tasks_accepted_total: ['Submissions that this process accepted (200 or 202).', () => submissions('')],
      tasks_completed_total: ['Tasks that this process completed and stored.', () => dispatched.completed],
      tasks_retried_total: ['Failed attempts that are retried.', () => labelled('reason', dispatched.retried)],
      tasks_dead_total: ['Dead-lettered tasks.', () => labelled('reason', dispatched.dead)],
      tasks_attempts_total: [
        'Ended attempts, by action and outcome.',
        () => [...dispatched.attempts].flatMap(([action, { outcomes }]) => ofAction(action, outcomes)),
      ],
      tasks_cancelled_total: ['Tasks that this process cancelled.', () => queue.cancelled],
      tasks_callbacks_total: [
        'Attempts to deliver a callback, by outcome.',
        () => labelled('outcome', callbacks.outcomes),
      ],
      tasks_refused_total: ['Submissions that the queue refused.', () => submissions('failed to queue task')],
      tasks_dead_letters_evicted_total: [
        'Dead letters that this process evicted because of a limit.',
        () => counted(({ evicted }) => evicted),
      ],
    },
    gauge: {
      tasks_queue_length: ['Tasks in the queue.', lengths],
      tasks_queue_bytes: [
        'Size of the messages, failure reasons and histories of queued tasks.',
        () => counted(({ bytes }) => bytes),
      ],
      tasks_queue_limit_length: ['Limit of `tasks_queue_length`.', () => sources.bounds.maxLength],
      tasks_queue_limit_bytes: ['Limit of `tasks_queue_bytes`.', () => sources.bounds.maxBytes],
      tasks_queue_oldest_age_seconds: ['Time since the longest waiting task became due; 0 if none waits.', oldestAge],
      tasks_schedules: ['Schedules.', () => scheduler.count],
      tasks_schedule_overdue_seconds: [
        'Time since the earliest time of a schedule that should have run; 0 if none is late.',
        () => scheduler.overdueMs / 1000,
      ],
      tasks_paused: ['Whether the queue is paused: 1 or 0.', () => Number(queue.isPaused)],
      tasks_request_body_bytes: ['Bytes of request bodies that have not been parsed yet.', () => bodies.used],
      tasks_request_body_limit_bytes: ['Limit of `tasks_request_body_bytes`.', () => bodies.limit],
      tasks_unread_response_bytes: ['Bytes of responses that clients have not read yet.', () => responses.used],
      tasks_unread_response_limit_bytes: ['Limit of `tasks_unread_response_bytes`.', () => responses.limit],
      tasks_event_streams: ['Open streams of `/tasks/events`.', () => events.subscribers],
      tasks_dead_letters: ['Dead letters that are stored.', () => counted(({ dead }) => dead)],
      tasks_queue_file_failing: [
        'Whether the database of the queue is unusable: 1 or 0.',
        () => Number(sources.problem() !== undefined),
      ],
      tasks_pool_threads: ['Worker threads that process tasks.', threads],
    },
    histogram: {
      tasks_wait_duration_seconds: [
        'Time from the acceptance of a task to its first attempt.',
        () => [[{}, [dispatched.waits]]],
      ],
      tasks_attempt_duration_seconds: [
        'Time from the start of an attempt to its outcome, by action.',
        () => [...dispatched.attempts].map(([action, { durations }]) => [{ action }, [durations]]),
      ],
      tasks_run_duration_seconds: ['Duration of an attempt, excluding row storage.', () => [[{}, [pool.durations]]]],
    },
  };
}

function ofAction(action: string, outcomes: Iterable<readonly [string, number]>): Labelled<number>[] {
  return Array.from(outcomes, ([outcome, count]) => [{ action, outcome }, count]);
}

const noSamples: readonly Labelled<number>[] = [];

interface ProcessMetrics {
  log: LogOutput['metrics'];
  requests: Readonly<Record<string, RequestMetrics>>;
  /** Event loop delays by thread name, except of task worker threads, which block while they wait for a task. */
  loopDelays: Readonly<Record<string, Histogram>>;
}

export function processMetrics({ log, requests, loopDelays }: ProcessMetrics): MetricsTable {
  return {
    counter: {
      log_lines_lost_total: ['Log lines lost because standard output did not take them.', log.lost],
      log_lines_suppressed_total: ['Repeated warnings and errors omitted from the log.', log.suppressed],
    },
    histogram: {
      nodejs_eventloop_delay_seconds: [
        'Event loop delay: how late a timer fires.',
        () => Object.entries(loopDelays).map(([thread, delays]) => [{ thread }, [delays]]),
      ],
      http_server_request_duration_seconds: [
        'Time from the end of request headers until the response is ready or begins to stream. Status 499: the client disconnected first.',
        () => Object.entries(requests).flatMap(([service, metrics]) => byStatus(service, metrics)),
      ],
    },
  };
}

/** Merges series that differ only in their error, because the metric has no error label. */
function byStatus(service: string, metrics: RequestMetrics): Labelled<readonly Histogram[]>[] {
  const groups = Map.groupBy(metrics.series(), ({ method, route, status }) => `${method} ${route} ${status}`);
  return [...groups.values()].map((series) => {
    const { method, route, status } = series[0] as RequestSeries;
    const labels = { service, http_request_method: method, http_route: route, http_response_status_code: status };
    return [labels, series.map(({ durations }) => durations)];
  });
}

let defaults: Registry | undefined;

/** Registers prom-client's default metrics, which are collected only once because their observers are never removed. */
export function registerDefaultMetrics(registry: Registry): void {
  if (defaults === undefined) {
    defaults = new Registry();
    // In milliseconds, as rarely as `recordLoopDelay` wakes the thread.
    collectDefaultMetrics({ register: defaults, eventLoopMonitoringPrecision: 100 });
  }
  for (const metric of defaults.getMetricsAsArray()) registry.registerMetric(metric as unknown as Metric);
}
