import type { LogMetrics } from '../log.ts';
import type { MetricsRegistry } from '../metrics/registry.ts';

/** Registers counters of log lines that were not written. */
export function registerLogMetrics(registry: MetricsRegistry, metrics: LogMetrics): void {
  registry.counter('log_lines_lost_total', 'Log lines that standard output did not take.', () => metrics.lost);
  registry.counter(
    'log_lines_suppressed_total',
    'Repeated warnings and errors left out of the log.',
    () => metrics.suppressed,
  );
}
