import type { Distribution } from '../figures/distribution.ts';
import type { RequestFigures } from '../figures/requests.ts';
import type { Labelled, Metrics } from './metrics.ts';

/** Registers the HTTP request durations of both services, with the names of OpenTelemetry's semantic conventions. */
export function requestMetrics(metrics: Metrics, services: Readonly<Record<string, RequestFigures>>): void {
  metrics.histogram(
    'http_server_request_duration_seconds',
    'Requests, from the end of their headers until their response is ready, or a streamed one begins. Status 499: the client left before.',
    () => Object.entries(services).flatMap(([service, figures]) => [...byStatus(service, figures)]),
  );
}

/** Merges series that differ only in their error. */
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
