import { setTimeout } from 'node:timers/promises';
import { getHeapStatistics } from 'node:v8';
import { systemClock as clock, systemRandom as random } from '../../workers/shared/clock.ts';
import { startAdmin } from '../admin/service.ts';
import { openBackend } from '../backends/backend.ts';
import { type Config, checkHeapBudget } from '../config.ts';
import { openFilesLimit, shareDescriptors } from '../http/connection-limiter.ts';
import { authenticationRequired } from '../http/errors.ts';
import { isLoopbackAddress } from '../http/origins.ts';
import { checkPorts, explainListenError } from '../http/port-check.ts';
import type { LogOutput } from '../log/log.ts';
import type { TaskAccess } from '../tasks/http/access.ts';
import { startTasks, type Unfinished, type WatchedModule } from '../tasks/service.ts';
import { checkHandlers, checkPriceSource } from '../threads/one-shot-threads.ts';
import { authorizationToken, issueToken } from '../ticker/auth.ts';
import { allowedTasks, loadRoles } from '../ticker/policy.ts';
import { startTicker, type TickerService } from '../ticker/service.ts';
import { TokenStoreUnavailable } from '../ticker/token-store.ts';
import { createdBy } from '../ticker/tokens.ts';
import { watchHandlers } from './watch-handlers.ts';

export type Services = Awaited<ReturnType<typeof startServices>>;

/**
 * Starts the ticker service, the task service and the admin listener.
 *
 * @param onTasks receives a function that returns how many accepted tasks would be lost if the process ended
 * @throws {Error} if a service cannot start; the message says what to fix
 */
export async function startServices(
  config: Config & { watch?: boolean },
  output: LogOutput,
  onTasks: (unsaved: () => number) => void = () => {},
) {
  const { log } = output;
  const { shutdownTimeoutMs } = config;
  checkHeapBudget(config, getHeapStatistics().heap_size_limit);
  const shares = shareDescriptors(openFilesLimit(), config.tasks.concurrency);
  // User modules and policies are checked before any database or connection is opened, so that a refused start changes nothing.
  if (config.watch && config.tasks.handlers === undefined) throw new Error('--watch needs TASK_HANDLERS: set it');
  const watched: WatchedModule = { sources: new Map() };
  const handlersModule = await checkHandlers(config.tasks, undefined, watched.sources);
  await checkPriceSource(config.ticker);
  const scopeOf = await loadRoles(log, config.tokens.policiesDir);
  const planned = plannedListeners(config);
  await checkPorts(Object.values(planned));
  await using startedParts = new AsyncDisposableStack();
  const backend = await openBackend(config, clock, random, log);
  startedParts.defer(() => backend.close());
  const now = Promise.resolve();
  const ticker = await startTicker(config, backend, scopeOf, shares, clock, log).catch(
    explainListenError(planned.ticker),
  );
  startedParts.defer(() => ticker.stop(now));
  const access = config.tasks.requireToken ? tokenAccess(ticker) : undefined;
  const parts = { ...handlersModule, ...(config.watch && { watched }), access, clock, random };
  const tasks = await startTasks(config, backend, shares, log, parts).catch(explainListenError(planned.tasks));
  onTasks(() => tasks.unsaved());
  startedParts.defer(() => tasks.stop({ connections: now, abort: now, all: now }).then(() => {}));
  const watcher = config.watch ? watchHandlers(config.tasks, watched, handlersModule, tasks, log) : undefined;
  startedParts.defer(() => watcher?.stop());
  const admin = await startAdmin(config, { backend, ticker, tasks }, shares, output).catch(
    explainListenError(planned.admin),
  );
  startedParts.move();
  const listeners = { ticker: ticker.listener, tasks: tasks.listener, admin: admin?.listener };
  for (const [service, listener] of Object.entries(listeners))
    if (listener) log.info({ service, host: listener.host, port: listener.port }, 'listening');
  if (access === undefined && tasks.listener !== undefined && !isLoopbackAddress(tasks.listener.host)) {
    log.warn('service B has no authentication: set TASKS_REQUIRE_TOKEN=true to require tokens');
  }
  return {
    listeners,
    ticker,
    tasks,
    demoApiKey: ticker.demoApiKey,
    /** Closes all connections, and processes or stores accepted tasks, within `SHUTDOWN_TIMEOUT_MS`. */
    async stop(): Promise<Unfinished> {
      admin?.shuttingDown();
      watcher?.stop();
      const ended = new AbortController();
      const after = (ms: number) => setTimeout(ms, undefined, { signal: ended.signal }).catch(() => {});
      const deadlines = {
        // Connections get only half of the shutdown timeout, so that slow clients leave time for processing tasks.
        connections: after(shutdownTimeoutMs / 2),
        abort: after(Math.max(0, shutdownTimeoutMs - config.tasks.cancelGraceMs)),
        all: after(shutdownTimeoutMs),
      };
      try {
        const tasksStopped = tasks.stop(deadlines);
        const [left] = await Promise.all([tasksStopped, ticker.stop(deadlines.connections, tasksStopped)]);
        await backend.close();
        await admin?.stop(deadlines.all);
        return left;
      } finally {
        ended.abort();
      }
    },
  };
}

function plannedListeners({ http: { host, reusePort }, ticker, tasks, admin }: Config) {
  const service = (port: string) => ({ host, reusePort, variables: { host: 'HOST', port } });
  return {
    ticker: { ...service('TICKER_PORT'), port: ticker.port },
    tasks: { ...service('TASKS_PORT'), port: tasks.port },
    admin: { ...admin, variables: { host: 'ADMIN_HOST', port: 'ADMIN_PORT' } },
  };
}

/** Accepts the ticker service's bearer tokens, but only in the `Authorization` header, because URLs end up in logs. */
export function tokenAccess({ tokens, tokenRoutes }: Pick<TickerService, 'tokens' | 'tokenRoutes'>): TaskAccess {
  return {
    tokenRoutes,
    async requireToken(ctx, next) {
      const identity = await tokens.verify(authorizationToken(ctx.req.headers));
      if (identity === undefined) throw authenticationRequired();
      const { user_id, role } = identity.actor.metadata;
      ctx.state.actor = {
        ...{ userId: user_id, role },
        access(action, resource) {
          const tasks = allowedTasks(identity.scope, action, resource);
          return tasks === 'own' ? { submitter: user_id } : tasks;
        },
        isSignedIn() {
          try {
            return tokens.isLive(identity);
          } catch (error) {
            // An open stream continues while tokens cannot be checked.
            if (error instanceof TokenStoreUnavailable) return true;
            throw error;
          }
        },
      };
      await next();
    },
    issue({ id, limit_key }, mayCancel, expiresIn, address, actor) {
      const tasks = limit_key === undefined ? { id: id ?? '' } : { limit_key };
      const actions = mayCancel ? ['read', 'delete'] : ['read'];
      const allowed = { effect: 'allow', actions, resources: ['task'], tasks } as const;
      const { userId: user_id, role } = actor ?? { userId: 'program', role: 'user' };
      const user = { user_id, role, apiKey: actor && createdBy(user_id) };
      const scope = [{ name: 'task token', group: 'user', ...allowed }];
      return issueToken(tokens, user, scope, address, expiresIn);
    },
  };
}
