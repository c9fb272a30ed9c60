import { collectDefaultMetrics } from 'prom-client';
import type { Histogram } from '../metrics/histogram.ts';
import type { MetricsRegistry } from '../metrics/registry.ts';

/**
 * Registers prom-client's default metrics, and the event loop delays by thread. Task threads have no series, because they block
 * instead of running an event loop while they wait for tasks.
 */
export function registerProcessMetrics(
  registry: MetricsRegistry,
  loopDelays: Readonly<Record<string, Histogram>>,
): void {
  collectDefaultMetrics({ register: registry.registry });
  registry.histogram('nodejs_eventloop_delay_seconds', 'Event loop delay: how late a timer fires.', () =>
    Object.entries(loopDelays).map(([thread, delays]) => [{ thread }, [delays]] as const),
  );
}
