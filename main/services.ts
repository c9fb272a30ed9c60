import { getHeapStatistics } from 'node:v8';
import { startAdmin } from './admin/service.ts';
import type { Config } from './config.ts';
import { checkHandlers } from './handlers-check.ts';
import { checkHeapBudget } from './heap-budget.ts';
import { openFilesLimit, shareDescriptors } from './http/descriptor-shares.ts';
import { isLoopbackAddress } from './http/host-header.ts';
import type { Listener } from './http/listener.ts';
import { checkPorts, explained } from './http/port-check.ts';
import type { LogOutput } from './log.ts';
import { openBackend } from './open-backend.ts';
import { checkPriceSource } from './price-source-check.ts';
import type { Unfinished } from './tasks/processing.ts';
import { startTasks } from './tasks/service.ts';
import { startTicker } from './ticker/service.ts';
import { tokenAccess } from './token-access.ts';

export interface Services {
  listeners: { ticker: Listener; tasks: Listener; admin?: Listener };
  demoApiKey: string;
  /** Closes all connections, and processes or stores accepted tasks, within `SHUTDOWN_TIMEOUT_MS`. */
  stop(): Promise<Unfinished>;
}

/**
 * Starts the ticker service, the task service and the admin listener.
 *
 * @param onTasks receives a function that returns how many accepted tasks would be lost if the process ended
 * @throws {Error} if a service cannot start; the message says what to fix
 */
export async function startServices(
  config: Config,
  output: LogOutput,
  onTasks: (unsaved: () => number) => void = () => {},
): Promise<Services> {
  const { log } = output;
  const { http, tokens, storage, nats, queue, retention, shutdownTimeoutMs } = config;
  checkHeapBudget({ queue, tasks: config.tasks }, getHeapStatistics().heap_size_limit);
  const shares = shareDescriptors(openFilesLimit(), config.tasks.concurrency);
  // User modules are checked before any database or connection is opened, so that a refused start changes nothing.
  const actions = await checkHandlers(config.tasks);
  await checkPriceSource(config.ticker);
  const planned = plannedListeners(config);
  const { admin: plannedAdmin, ...plannedServices } = planned;
  await checkPorts([...Object.values(plannedServices), ...(config.admin.port === undefined ? [] : [plannedAdmin])]);
  await using startedParts = new AsyncDisposableStack();
  const backend = await openBackend({ storage, nats, queue, tokens, ticker: config.ticker, retention }, log);
  startedParts.defer(() => backend.close());
  const now = Promise.resolve();
  const ticker = await startTicker({ http, tokens, ticker: config.ticker }, backend, shares, log).catch(
    explained(planned.ticker),
  );
  startedParts.defer(() => ticker.stop(now));
  const access = config.tasks.requireToken ? tokenAccess(ticker) : undefined;
  const parts = { actions, access };
  const tasks = await startTasks({ http, queue, tasks: config.tasks }, backend, shares, log, parts).catch(
    explained(planned.tasks),
  );
  onTasks(() => tasks.unsaved());
  startedParts.defer(() => tasks.stop({ connections: now, abort: now, all: now }).then(() => {}));
  const admin = await startAdmin(
    { http, admin: config.admin, ticker: config.ticker },
    { backend, ticker, tasks },
    shares,
    output,
  ).catch(explained(planned.admin));
  startedParts.move();
  const listeners = { ticker: ticker.listener, tasks: tasks.listener, ...(admin && { admin: admin.listener }) };
  for (const [service, { host, port }] of Object.entries(listeners)) log.info({ service, host, port }, 'listening');
  if (access === undefined && !isLoopbackAddress(tasks.listener.host)) {
    log.warn('service B has no authentication: set TASKS_REQUIRE_TOKEN=true to require tokens');
  }
  return {
    listeners,
    demoApiKey: ticker.demoApiKey,
    async stop() {
      admin?.shuttingDown();
      const connections = Promise.withResolvers<void>();
      const abort = Promise.withResolvers<void>();
      const all = Promise.withResolvers<void>();
      const timers = [
        // Connections get only half of the shutdown timeout, so that slow clients leave time for processing tasks.
        setTimeout(connections.resolve, shutdownTimeoutMs / 2),
        setTimeout(abort.resolve, Math.max(0, shutdownTimeoutMs - config.tasks.cancelGraceMs)),
        setTimeout(all.resolve, shutdownTimeoutMs),
      ];
      try {
        const deadlines = { connections: connections.promise, abort: abort.promise, all: all.promise };
        const tasksStopped = tasks.stop(deadlines);
        const [left] = await Promise.all([tasksStopped, ticker.stop(connections.promise, tasksStopped)]);
        await backend.close();
        await admin?.stop(all.promise);
        return left;
      } finally {
        for (const timer of timers) clearTimeout(timer);
      }
    },
  };
}

function plannedListeners({ http: { host, reusePort }, ticker, tasks, admin }: Config) {
  const service = (port: number, name: string) => ({ host, port, reusePort, variables: { host: 'HOST', port: name } });
  const { host: adminHost, port: adminPort = 0 } = admin;
  return {
    ticker: service(ticker.port, 'TICKER_PORT'),
    tasks: service(tasks.port, 'TASKS_PORT'),
    admin: { host: adminHost, port: adminPort, variables: { host: 'ADMIN_HOST', port: 'ADMIN_PORT' } },
  };
}
