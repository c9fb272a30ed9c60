import { collectDefaultMetrics } from 'prom-client';
import type { LogMetrics } from '../log.ts';
import type { Histogram } from '../metrics/histogram.ts';
import type { Labelled, MetricsRegistry } from '../metrics/registry.ts';
import type { RequestMetrics, RequestSeries } from '../metrics/request-metrics.ts';

/** Sources of the metrics that do not belong to one service. */
interface ProcessMetrics {
  log: LogMetrics;
  /** Request metrics by name of the service. */
  requests: Readonly<Record<string, RequestMetrics>>;
  /** Event loop delays by name of the thread. Task threads have none, because they block while they wait for tasks. */
  loopDelays: Readonly<Record<string, Histogram>>;
}

/**
 * Registers prom-client's default metrics, the log lines that were not written, event loop delays, and request durations with the
 * names of OpenTelemetry's semantic conventions.
 */
export function registerProcessMetrics(registry: MetricsRegistry, { log, requests, loopDelays }: ProcessMetrics): void {
  collectDefaultMetrics({ register: registry.registry });
  registry.counter('log_lines_lost_total', 'Log lines that standard output did not take.', () => log.lost);
  registry.counter(
    'log_lines_suppressed_total',
    'Repeated warnings and errors left out of the log.',
    () => log.suppressed,
  );
  registry.histogram('nodejs_eventloop_delay_seconds', 'Event loop delay: how late a timer fires.', () =>
    Object.entries(loopDelays).map(([thread, delays]) => [{ thread }, [delays]] as const),
  );
  registry.histogram(
    'http_server_request_duration_seconds',
    'Requests, from the end of their headers until their response is ready, or a streamed one begins. Status 499: the client left before.',
    () => Object.entries(requests).flatMap(([service, metrics]) => byStatus(service, metrics)),
  );
}

/** Groups the series that differ only in their error, because the error is not a label of the metric. */
function byStatus(service: string, metrics: RequestMetrics): Labelled<readonly Histogram[]>[] {
  const groups = Map.groupBy(metrics.series(), ({ method, route, status }) => `${method} ${route} ${status}`);
  return [...groups.values()].map((series) => {
    const { method, route, status } = series[0] as RequestSeries;
    const labels = { service, http_request_method: method, http_route: route, http_response_status_code: status };
    return [labels, series.map(({ durations }) => durations)];
  });
}
