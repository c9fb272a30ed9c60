import { Registry } from 'prom-client';
import { recordLoopDelay } from '../../workers/shared/histogram.ts';
import type { Backend } from '../backends/backend.ts';
import type { Config } from '../config.ts';
import type { ConnectionShares } from '../http/connection-limiter.ts';
import { listen } from '../http/listener.ts';
import type { Check } from '../http/readiness.ts';
import type { LogOutput } from '../log/log.ts';
import { registerMetrics } from '../metrics/metrics-table.ts';
import type { TasksService } from '../tasks/service.ts';
import type { TickerService } from '../ticker/service.ts';
import { createAdminApp } from './app.ts';
import { processMetrics, registerDefaultMetrics, tasksMetrics, tickerMetrics } from './metrics.ts';

/** Starts the admin listener, unless `ADMIN_PORT` is `off`. @throws {Error} if the port cannot be bound */
export async function startAdmin(
  { http, admin: { host, port }, ticker: { symbols } }: Pick<Config, 'http' | 'admin' | 'ticker'>,
  { backend, ticker, tasks }: { backend: Pick<Backend, 'checks'>; ticker: TickerService; tasks: TasksService },
  shares: Pick<ConnectionShares, 'admin'>,
  { log, metrics: logMetrics }: Pick<LogOutput, 'log' | 'metrics'>,
) {
  if (port === undefined) return undefined;
  let stopping = false;
  const shutdown = () => (stopping ? 'shutting down' : undefined);
  const loop = recordLoopDelay();
  const registry = new Registry();
  registerDefaultMetrics(registry);
  const requests = { ticker: ticker.metrics.requests, tasks: tasks.metrics.requests };
  const loopDelays = { main: loop.delays, ticker: ticker.metrics.ticker.loopDelays };
  registerMetrics(registry, tickerMetrics(ticker.metrics));
  registerMetrics(registry, tasksMetrics(tasks.metrics));
  registerMetrics(registry, processMetrics({ log: logMetrics, requests, loopDelays }));
  const app = createAdminApp({
    checks: { shutdown, ...backend.checks, ...ticker.checks, ...tasks.checks },
    warnings: { ...ticker.warnings, ...tasks.warnings, log: logCheck(logMetrics) },
    metrics: {
      contentType: registry.contentType,
      async metrics() {
        // If the queue cannot be counted, the metrics show the last counts.
        await tasks.metrics.queue.counts().catch(() => {});
        return registry.metrics();
      },
    },
    rules: tasks.rules,
    symbols,
    corsOrigins: http.corsOrigins,
    log,
  });
  const options = { host, port, allowedHosts: http.allowedHosts, maxConnections: shares.admin };
  const listener = await listen(app.callback(), options).catch((error: unknown) => {
    loop.stop();
    throw error;
  });
  return {
    listener,
    /** Makes the readiness check fail from now on. */
    shuttingDown() {
      stopping = true;
    },
    async stop(deadline: Promise<void>) {
      loop.stop();
      await listener.close(deadline);
    },
  };
}

/** Duration of the warning after more lines were lost, the same as that of the alert `LogLinesLost`. */
const WARNING_MS = 15 * 60_000;

/** Returns a check that warns while standard output fails, and from the call that finds more lost lines. */
export function logCheck(
  { failure, lost }: Pick<LogOutput['metrics'], 'failure' | 'lost'>,
  now = () => performance.now(),
): Check {
  let count = 0;
  let warnsUntil = Number.NEGATIVE_INFINITY;
  return () => {
    if (lost() > count) warnsUntil = now() + WARNING_MS;
    count = lost();
    if (now() < warnsUntil) return `${count} log lines were lost, because standard output did not take them`;
    return failure() && `standard output takes no log lines: ${failure()}`;
  };
}
