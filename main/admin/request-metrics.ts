import type { Histogram } from '../metrics/histogram.ts';
import type { Labelled, MetricsRegistry } from '../metrics/registry.ts';
import type { RequestMetrics } from '../metrics/request-metrics.ts';

/** Registers the HTTP request durations of both services, with the names of OpenTelemetry's semantic conventions. */
export function registerRequestMetrics(
  registry: MetricsRegistry,
  services: Readonly<Record<string, RequestMetrics>>,
): void {
  registry.histogram(
    'http_server_request_duration_seconds',
    'Requests, from the end of their headers until their response is ready, or a streamed one begins. Status 499: the client left before.',
    () => Object.entries(services).flatMap(([service, metrics]) => [...byStatus(service, metrics)]),
  );
}

/** Merges series that differ only in their error. */
function byStatus(service: string, metrics: RequestMetrics): Iterable<Labelled<readonly Histogram[]>> {
  const merged = new Map<string, readonly [labels: Record<string, string | number>, durations: Histogram[]]>();
  for (const { method, route, status, durations } of metrics.series()) {
    const labels = { service, http_request_method: method, http_route: route, http_response_status_code: status };
    const key = Object.values(labels).join(' ');
    const known = merged.get(key);
    if (known === undefined) merged.set(key, [labels, [durations]]);
    else known[1].push(durations);
  }
  return merged.values();
}
