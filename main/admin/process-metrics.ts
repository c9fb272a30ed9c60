import type { Histogram } from '../../workers/histogram.ts';
import type { LogMetrics } from '../log.ts';
import type { Labelled, MetricsTable } from '../metrics/metrics-table.ts';
import type { RequestMetrics, RequestSeries } from '../metrics/request-metrics.ts';

interface ProcessMetrics {
  log: LogMetrics;
  requests: Readonly<Record<string, RequestMetrics>>;
  /** Event loop delays by thread name, except of task worker threads, which block while they wait for a task. */
  loopDelays: Readonly<Record<string, Histogram>>;
}

/** Returns metrics for lost log lines, event loop delays and request durations. */
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
