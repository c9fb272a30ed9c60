import type { Backend } from '../backends/backend.ts';
import type { Config } from '../config.ts';
import { addressShare, type ConnectionShares } from '../http/descriptor-shares.ts';
import { type Listener, listen } from '../http/listener.ts';
import type { LogOutput } from '../log.ts';
import { recordLoopDelay } from '../metrics/event-loop-delay.ts';
import { MetricsRegistry } from '../metrics/registry.ts';
import type { TasksService } from '../tasks/service.ts';
import type { TickerService } from '../ticker/service.ts';
import { createAdminApp } from './app.ts';
import { registerProcessMetrics } from './process-metrics.ts';
import { registerTasksMetrics } from './tasks-metrics.ts';
import { registerTickerMetrics } from './ticker-metrics.ts';

export interface AdminService {
  listener: Listener;
  /** Makes the readiness check fail from now on. */
  shuttingDown(): void;
  stop(deadline: Promise<void>): Promise<void>;
}

/** Starts the admin listener. @returns undefined if `ADMIN_PORT` is `off` @throws {Error} if the port cannot be bound */
export async function startAdmin(
  config: Pick<Config, 'adminHost' | 'adminPort' | 'allowedHosts' | 'corsOrigins'>,
  { backend, ticker, tasks }: { backend: Pick<Backend, 'checks'>; ticker: TickerService; tasks: TasksService },
  shares: Pick<ConnectionShares, 'admin'>,
  { log, metrics: logCounters }: Pick<LogOutput, 'log' | 'metrics'>,
): Promise<AdminService | undefined> {
  const { adminHost, adminPort, allowedHosts, corsOrigins } = config;
  if (adminPort === undefined) return undefined;
  let stopping = false;
  const shutdown = () => (stopping ? 'shutting down' : undefined);
  const loop = recordLoopDelay();
  const registry = new MetricsRegistry();
  registerTickerMetrics(registry, ticker.metrics);
  registerTasksMetrics(registry, tasks.metrics);
  registerProcessMetrics(registry, {
    log: logCounters,
    requests: { ticker: ticker.metrics.requests, tasks: tasks.metrics.requests },
    loopDelays: { main: loop.delays, ticker: ticker.metrics.ticker.loopDelays },
  });
  const app = createAdminApp({
    checks: { shutdown, ...backend.checks, ...ticker.checks, ...tasks.checks },
    warnings: { ...ticker.warnings, ...tasks.warnings },
    metrics: registry,
    corsOrigins,
    log,
  });
  const bounds = { maxConnections: shares.admin, addressShare: addressShare(0) };
  const listener = await listen(app.callback(), { host: adminHost, port: adminPort, allowedHosts, ...bounds });
  return {
    listener,
    shuttingDown() {
      stopping = true;
    },
    async stop(deadline) {
      loop.stop();
      await listener.close(deadline);
    },
  };
}
