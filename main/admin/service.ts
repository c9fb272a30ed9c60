import type { Config } from '../config.ts';
import type { Engine } from '../engines/engine.ts';
import { noteLoopDelay } from '../figures/loop-delay.ts';
import { addressShare, type ConnectionShares } from '../http/descriptors.ts';
import { type Listener, listen } from '../http/listener.ts';
import type { LogOutput } from '../log.ts';
import type { TasksService } from '../tasks/service.ts';
import type { TickerService } from '../ticker/service.ts';
import { createAdminApp } from './app.ts';
import { logMetrics } from './log-metrics.ts';
import { Metrics } from './metrics.ts';
import { processMetrics } from './process-metrics.ts';
import { requestMetrics } from './request-metrics.ts';
import { tasksMetrics } from './tasks-metrics.ts';
import { tickerMetrics } from './ticker-metrics.ts';

/** The running admin listener. */
export interface AdminService {
  listener: Listener;
  /** Makes the readiness check fail from now on. */
  shuttingDown(): void;
  stop(deadline: Promise<void>): Promise<void>;
}

/** Starts the admin listener. @returns undefined if `ADMIN_PORT` is `off` @throws {Error} if the port cannot be bound */
export async function startAdmin(
  {
    adminHost,
    adminPort,
    allowedHosts,
    corsOrigins,
  }: Pick<Config, 'adminHost' | 'adminPort' | 'allowedHosts' | 'corsOrigins'>,
  { engine, ticker, tasks }: { engine: Pick<Engine, 'checks'>; ticker: TickerService; tasks: TasksService },
  shares: Pick<ConnectionShares, 'admin'>,
  { log, figures: logFigures }: Pick<LogOutput, 'log' | 'figures'>,
): Promise<AdminService | undefined> {
  if (adminPort === undefined) return undefined;
  let stopping = false;
  const shutdown = () => (stopping ? 'shutting down' : undefined);
  const loop = noteLoopDelay();
  const metrics = new Metrics();
  tickerMetrics(metrics, ticker.figures);
  tasksMetrics(metrics, tasks.figures);
  requestMetrics(metrics, { ticker: ticker.figures.requests, tasks: tasks.figures.requests });
  logMetrics(metrics, logFigures);
  processMetrics(metrics, { main: loop.delays, ticker: ticker.figures.ticker.loopDelays });
  const app = createAdminApp({
    checks: { shutdown, ...engine.checks, ...ticker.checks, ...tasks.checks },
    warnings: { ...ticker.warnings, ...tasks.warnings },
    metrics,
    corsOrigins,
    log,
  });
  const listener = await listen(app.callback(), {
    host: adminHost,
    port: adminPort,
    allowedHosts,
    maxConnections: shares.admin,
    addressShare: addressShare(0),
  });
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
