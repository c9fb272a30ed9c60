import { collectDefaultMetrics } from 'prom-client';
import type { Distribution } from '../figures/distribution.ts';
import type { Metrics } from './metrics.ts';

/**
 * Registers prom-client's default metrics, and the event loop delays by thread. Task threads have no series, because they block
 * instead of running an event loop while they wait for tasks.
 */
export function processMetrics(metrics: Metrics, loopDelays: Readonly<Record<string, Distribution>>): void {
  collectDefaultMetrics({ register: metrics.registry });
  metrics.histogram('nodejs_eventloop_delay_seconds', 'Event loop delay: how late a timer fires.', () =>
    Object.entries(loopDelays).map(([thread, delays]) => [{ thread }, [delays]] as const),
  );
}
