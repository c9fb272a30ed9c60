import Koa, { type Middleware } from 'koa';
import type { Config } from '../../config.ts';
import { router } from '../../http/exact-router.ts';
import { apiHeaders, jsonErrors, logLateError, notFound } from '../../http/json-reply.ts';
import { crossSite } from '../../http/origins.ts';
import { staticClient } from '../../http/static-files.ts';
import { TurnLimit } from '../../http/turn-limit.ts';
import { type RequestMetrics, recordRequests } from '../../metrics/request-metrics.ts';
import type { TaskAccess } from './access.ts';
import { deadLettersRoutes } from './dead-letters-router.ts';
import { eventsRoutes } from './events-router.ts';
import { limitsRoutes } from './limits-router.ts';
import { queueRoutes } from './queue-router.ts';
import type { RouterOptions } from './routing.ts';
import { schedulesRoutes } from './schedules-router.ts';
import { searchRoutes } from './search-router.ts';
import { tasksRoutes } from './tasks-router.ts';
import { tokensRoutes } from './tokens-router.ts';

export interface TasksAppOptions
  extends Omit<RouterOptions, 'turns'>,
    Pick<Config['http'], 'corsOrigins' | 'trustProxy'> {
  /** If undefined, requests need no token. */
  access: TaskAccess | undefined;
  requests: RequestMetrics;
}

/** Creates the Koa apps of the task service, for clients and for this process. @throws {Error} if a file of the browser client cannot be read */
export async function createTasksApp({ access, corsOrigins, trustProxy, ...options }: TasksAppOptions) {
  const app = new Koa({ proxy: trustProxy > 0, maxIpsCount: trustProxy });
  const routing: RouterOptions = { ...options, turns: new TurnLimit() };
  app.on('error', logLateError(options.log));
  app.use(recordRequests(options.requests));
  app.use(jsonErrors(options.log));
  for (const middleware of crossSite({ corsOrigins, refused: 'writes' })) app.use(middleware);
  app.use(await staticClient('tasks'));
  app.use(redirectToBoard);
  if (access !== undefined) {
    app.use(access.tokenRoutes);
    app.use(access.requireToken);
  }
  // `/tasks/events` and `/tasks/search` come first, because `/tasks/:id` would match them.
  const all = [eventsRoutes, searchRoutes, tasksRoutes, queueRoutes, limitsRoutes, deadLettersRoutes, schedulesRoutes];
  const ofTokens = access === undefined ? [] : [tokensRoutes(routing, access)];
  const routers = [...ofTokens, ...all.map((routes) => routes(routing))].map((routes) => router(routes));
  const local = new Koa();
  local.use(jsonErrors(options.log));
  for (const routed of [...routers, notFound]) {
    app.use(routed);
    local.use(routed);
  }
  return { app, local };
}

const TASK_PATH = /^\/tasks\/(?!(?:events|batch|cancel|search)$)([\w-]+)$/;

/**
 * Redirects a browser from a task's URL, for example the `Location` of a 202, to the task on the board.
 *
 * Recognizes a browser by `Sec-Fetch-Dest`, which neither scripts nor other clients send with this value. `Accept` is no
 * safe criterion: Java's HttpURLConnection prefers `text/html` by default. Over plain HTTP, browsers send
 * `Sec-Fetch-Dest` only to loopback addresses. To other addresses, they get JSON.
 *
 * Must be registered before the token is required, because a browser cannot send a token when it opens a URL.
 */
const redirectToBoard: Middleware = (ctx, next) => {
  const [, id] = TASK_PATH.exec(ctx.path) ?? [];
  const isRead = ctx.method === 'GET' || ctx.method === 'HEAD';
  if (id === undefined || !isRead || ctx.get('Sec-Fetch-Dest') !== 'document') return next();
  ctx.respond = false;
  ctx.res.writeHead(303, { ...apiHeaders, 'Content-Length': 0, Location: `/?task=${id}` }).end();
  return undefined;
};
