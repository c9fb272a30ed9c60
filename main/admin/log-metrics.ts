import type { LogFigures } from '../log.ts';
import type { Metrics } from './metrics.ts';

/** Registers counters of log lines that were not written. */
export function logMetrics(metrics: Metrics, figures: LogFigures): void {
  metrics.counter('log_lines_lost_total', 'Log lines that standard output did not take.', () => figures.lost);
  metrics.counter(
    'log_lines_suppressed_total',
    'Repeated warnings and errors left out of the log.',
    () => figures.suppressed,
  );
}
