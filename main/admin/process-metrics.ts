import { collectDefaultMetrics } from 'prom-client';
import type { Distribution } from '../figures/distribution.ts';
import type { Metrics } from './metrics.ts';

/**
 * What Node and the system tell of the process, and how late the event loops of its threads are. (Not those of the task
 * threads, which sleep without one until there is something to do.)
 */
export function processMetrics(metrics: Metrics, loopDelays: Readonly<Record<string, Distribution>>): void {
  collectDefaultMetrics({ register: metrics.registry });
  metrics.histogram('nodejs_eventloop_delay_seconds', 'How much later than asked for an event loop came round.', () =>
    Object.entries(loopDelays).map(([thread, delays]) => [{ thread }, [delays]] as const),
  );
}
