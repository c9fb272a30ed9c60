import { collectDefaultMetrics, type Metric, Registry } from 'prom-client';

/** Registry of prom-client's default metrics, created on first use. */
let defaults: Registry | undefined;

/**
 * Registers prom-client's default metrics. All registries share the same metrics, because prom-client never removes the
 * observers that collect them.
 */
export function registerDefaultMetrics(registry: Registry): void {
  if (defaults === undefined) {
    defaults = new Registry();
    collectDefaultMetrics({ register: defaults });
  }
  for (const metric of defaults.getMetricsAsArray()) registry.registerMetric(metric as unknown as Metric);
}
