import type { Distribution } from '../figures/distribution.ts';
import type { RequestFigures } from '../figures/requests.ts';
import type { Labelled, Metrics } from './metrics.ts';

/** HTTP requests of both services, named as OpenTelemetry's semantic conventions name them. */
export function requestMetrics(metrics: Metrics, services: Readonly<Record<string, RequestFigures>>): void {
  metrics.histogram(
    'http_server_request_duration_seconds',
    'Requests, from their headers until their answer is made.',
    () => Object.entries(services).flatMap(([service, figures]) => [...byStatus(service, figures)]),
  );
}

/** Series that differ in their error alone are one here. */
function byStatus(service: string, figures: RequestFigures): Iterable<Labelled<readonly Distribution[]>> {
  const merged = new Map<string, readonly [labels: Record<string, string | number>, durations: Distribution[]]>();
  for (const { method, route, status, durations } of figures.series()) {
    const labels = { service, http_request_method: method, http_route: route, http_response_status_code: status };
    const key = Object.values(labels).join(' ');
    const known = merged.get(key);
    if (known === undefined) merged.set(key, [labels, [durations]]);
    else known[1].push(durations);
  }
  return merged.values();
}
