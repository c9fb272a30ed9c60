import { getHeapStatistics } from 'node:v8';
import { startAdmin } from './admin/service.ts';
import type { Config } from './config.ts';
import { checkHandlers } from './handlers-check.ts';
import { checkHeapBudget } from './heap-budget.ts';
import { openFilesLimit, shareDescriptors } from './http/descriptor-shares.ts';
import { isLoopbackAddress } from './http/host-header.ts';
import type { LogOutput } from './log.ts';
import { openBackend } from './open-backend.ts';
import { checkPriceSource } from './price-source-check.ts';
import { startTasks, type Unfinished } from './tasks/service.ts';
import { startTicker } from './ticker/service.ts';
import { tokenAccess } from './token-access.ts';

export interface Services {
  ports: { ticker: number; tasks: number; admin: number | undefined };
  /** Stops the services within `shutdownTimeoutMs`: closes connections, and processes or stores accepted tasks. */
  stop(): Promise<Unfinished>;
}

/**
 * Starts service A, service B and the admin listener.
 *
 * @param onTasks called when service B has started; its argument returns how many accepted tasks would be lost if the
 *   process ended
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
  // The user's modules are checked before any database file or server connection is opened.
  const actions = await checkHandlers(config.tasks);
  await checkPriceSource(config.ticker);
  await using startedParts = new AsyncDisposableStack();
  const backend = await openBackend({ storage, nats, queue, tokens, ticker: config.ticker, retention }, log);
  startedParts.defer(() => backend.close());
  const now = Promise.resolve();
  const ticker = await startTicker({ http, tokens, ticker: config.ticker }, backend, shares, log).catch(
    explain('TICKER_PORT', 'HOST'),
  );
  startedParts.defer(() => ticker.stop(now));
  const access = config.tasks.requireToken ? tokenAccess(ticker) : undefined;
  const parts = { actions, access };
  const tasks = await startTasks({ http, queue, tasks: config.tasks }, backend, shares, log, parts).catch(
    explain('TASKS_PORT', 'HOST'),
  );
  onTasks(() => tasks.unsaved());
  startedParts.defer(() => tasks.stop({ connections: now, abort: now, all: now }).then(() => {}));
  const admin = await startAdmin(
    { http, admin: config.admin, ticker: config.ticker },
    { backend, ticker, tasks },
    shares,
    output,
  ).catch(explain('ADMIN_PORT', 'ADMIN_HOST'));
  startedParts.move();
  const listeners = { ticker: ticker.listener, tasks: tasks.listener, ...(admin && { admin: admin.listener }) };
  for (const [service, { host, port }] of Object.entries(listeners)) log.info({ service, host, port }, 'listening');
  if (access === undefined && !isLoopbackAddress(tasks.listener.host)) {
    log.warn('service B has no authentication: set TASKS_REQUIRE_TOKEN=true to require tokens');
  }
  return {
    ports: { ticker: ticker.listener.port, tasks: tasks.listener.port, admin: admin?.listener.port },
    async stop() {
      admin?.shuttingDown();
      const connections = Promise.withResolvers<void>();
      const abort = Promise.withResolvers<void>();
      const all = Promise.withResolvers<void>();
      const timers = [
        // Connections are closed after half of the timeout, so that slow clients leave time for processing tasks.
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

/** Returns a `catch` handler that replaces an error of `listen` with an error that names the setting to change. */
function explain(portVariable: string, hostVariable: string) {
  return (error: NodeJS.ErrnoException & { port?: number }): never => {
    const { port, syscall, code = '' } = error;
    const reasons: Record<string, string> = {
      EADDRINUSE: `port ${port} is in use: stop the program that uses it, or set ${portVariable} to another port`,
      EACCES: `this user may not listen on port ${port}: set ${portVariable} to a port above 1023`,
      EADDRNOTAVAIL: `the address does not belong to this machine: set ${hostVariable} to one of its addresses`,
      ENOTFOUND: `the host name cannot be resolved: set ${hostVariable} to an address of this machine`,
    };
    const reason = syscall === 'listen' || syscall === 'getaddrinfo' ? reasons[code] : undefined;
    throw reason === undefined ? error : new Error(reason, { cause: error });
  };
}
