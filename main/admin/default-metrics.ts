import { collectDefaultMetrics, type Metric, Registry } from 'prom-client';

/** Registry of prom-client's default metrics. Undefined until they are first needed. */
let defaults: Registry | undefined;

/**
 * Registers prom-client's default metrics. All registries share one set, because the metrics measure the process, and because
 * prom-client never removes the observers that it adds to collect them.
 */
export function registerDefaultMetrics(registry: Registry): void {
  if (defaults === undefined) {
    defaults = new Registry();
    collectDefaultMetrics({ register: defaults });
  }
  for (const metric of defaults.getMetricsAsArray()) registry.registerMetric(metric as unknown as Metric);
}
