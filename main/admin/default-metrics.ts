import { collectDefaultMetrics, type Metric, Registry } from 'prom-client';

let defaults: Registry | undefined;

/** Registers prom-client's default metrics, which are collected only once because their observers are never removed. */
export function registerDefaultMetrics(registry: Registry): void {
  if (defaults === undefined) {
    defaults = new Registry();
    collectDefaultMetrics({ register: defaults });
  }
  for (const metric of defaults.getMetricsAsArray()) registry.registerMetric(metric as unknown as Metric);
}
