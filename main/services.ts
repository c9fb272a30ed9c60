import { getHeapStatistics } from 'node:v8';
import { startAdmin } from './admin/service.ts';
import type { Config } from './config.ts';
import { checkHeapBudget } from './heap-budget.ts';
import { openFilesLimit, shareDescriptors } from './http/descriptor-shares.ts';
import { isLoopbackAddress } from './http/host-header.ts';
import type { LogOutput } from './log.ts';
import { openBackend } from './open-backend.ts';
import { tokenAccess } from './task-access.ts';
import { startTasks, type Unfinished } from './tasks/service.ts';
import { startTicker } from './ticker/service.ts';

export interface Services {
  ports: { ticker: number; tasks: number; admin: number | undefined };
  /** Stops the services within `shutdownTimeoutMs`: closes connections, and processes or stores accepted tasks. */
  stop(): Promise<Unfinished>;
}

/**
 * Starts service A, service B and the admin listener.
 *
 * @param onTasks called when service B has started, with a function that returns the number of accepted tasks that would be lost if
 *   the process ended now
 * @throws {Error} whose message says what to fix
 */
export async function startServices(
  config: Config,
  output: LogOutput,
  onTasks: (unsaved: () => number) => void = () => {},
): Promise<Services> {
  const { log } = output;
  checkHeapBudget(config, getHeapStatistics().heap_size_limit);
  const shares = shareDescriptors(openFilesLimit(), config);
  const backend = await openBackend(config, log);
  const now = Promise.resolve();
  /** Functions that stop the parts started so far. The part started last comes first. */
  const stopSteps: Array<() => unknown> = [() => backend.close()];
  const stopStarted = async (error: unknown): Promise<never> => {
    for (const stop of stopSteps) await stop();
    throw error;
  };
  const ticker = await startTicker(config, backend, shares, log)
    .catch(explain('TICKER_PORT', 'HOST'))
    .catch(stopStarted);
  stopSteps.unshift(() => ticker.stop(now));
  const access = config.tasksRequireToken ? tokenAccess(ticker) : undefined;
  const tasks = await startTasks(config, backend, shares, log, access)
    .catch(explain('TASKS_PORT', 'HOST'))
    .catch(stopStarted);
  onTasks(() => tasks.unsaved());
  stopSteps.unshift(() => tasks.stop({ connections: now, all: now }));
  const admin = await startAdmin(config, { backend, ticker, tasks }, shares, output)
    .catch(explain('ADMIN_PORT', 'ADMIN_HOST'))
    .catch(stopStarted);
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
      const all = Promise.withResolvers<void>();
      const timers = [
        // Connections are closed after half of the timeout, so that slow clients leave the other half for processing tasks.
        setTimeout(connections.resolve, config.shutdownTimeoutMs / 2),
        setTimeout(all.resolve, config.shutdownTimeoutMs),
      ];
      try {
        const tasksStopped = tasks.stop({ connections: connections.promise, all: all.promise });
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

/** Returns a rejection handler that replaces an error of `listen` by an error that names the settings to change. */
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
