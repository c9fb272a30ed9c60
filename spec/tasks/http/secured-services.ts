import { tokenAccess } from '../../../main/process/start-services.ts';
import { authRoutes } from '../../../main/ticker/auth.ts';
import type { Scope } from '../../../main/ticker/policy.ts';
import { request } from '../../support/program.ts';
import { startTickerBundle, type TickerBundleOptions } from '../../support/ticker-bundle.ts';
import { startTasksServer, type TasksServer } from './tasks-server.ts';

export const ID = '00000000-0000-4000-8000-000000000000';
export const user: Scope = [{ name: 'user', group: 'user', actions: '*', resources: '*', effect: 'allow' }];

export type Services = Awaited<ReturnType<typeof startSecured>>;

/** Starts service B, which shares its tokens with service A. */
export async function startSecured(options: TickerBundleOptions & { corsOrigins?: string[] } = {}) {
  let tokenRoutes: Parameters<typeof tokenAccess>[0]['tokenRoutes'] | undefined;
  const ticker = await startTickerBundle({
    ...options,
    replace(real) {
      tokenRoutes = authRoutes(real);
      return {};
    },
  });
  if (tokenRoutes === undefined) throw new Error('service A has no options');
  const { tokens } = ticker;
  const { corsOrigins = [] } = options;
  const tasks = await startTasksServer({ access: tokenAccess({ tokens, tokenRoutes }), corsOrigins });
  /** Issues a token. */
  const token = (userId = 'demo', scope = user) =>
    tokens.issue({ user_id: userId, role: 'user', apiKey: userId }, scope, '127.0.0.1');
  return { tasks, ticker, token };
}

export const bearer = (token: string) => ({ Authorization: `Bearer ${token}` });

/** Operations of service B except `/auth/token`, by the permission that they require. HEAD requires that of GET. */
export const operationsOf: Record<string, string[]> = {
  'read task': [
    ...['get /tasks', 'get /tasks/search', 'get /tasks/events', 'get /tasks/{id}', 'get /queue/tasks'],
    ...['get /queue/activity', 'post /tasks/{id}/token', 'post /limit-keys/{key}/token'],
  ],
  'read action': ['get /actions'],
  'create task': [
    ...['post /tasks', 'post /tasks/batch', 'post /tasks/{id}/run', 'put /schedules/{name}'],
    ...['post /schedules/{name}/run', 'post /dead-letters/redrive', 'post /dead-letters/{id}/retry'],
  ],
  'delete task': ['delete /tasks/{id}', 'post /tasks/cancel'],
  'read dead_letter': ['get /dead-letters', 'get /dead-letters/reasons'],
  'delete dead_letter': ['post /dead-letters/purge', 'delete /dead-letters/{id}'],
  'read queue': ['get /queue', 'get /queue/history', 'get /limits'],
  'read schedule': ['get /schedules', 'get /schedules/{name}'],
  'delete schedule': ['delete /schedules/{name}'],
  'update queue': ['post /queue/pause', 'post /queue/resume', 'put /limits/{action}', 'delete /limits/{action}'],
};

export const withHead = (operation: string) =>
  operation.startsWith('get') ? [operation, operation.replace('get', 'head')] : [operation];
export const operations = Object.values(operationsOf).flat().flatMap(withHead);

const bodies: Record<string, string> = {
  'post /tasks': '{"action":"x"}',
  'post /tasks/batch': '{"tasks":[{"action":"x"}]}',
  'put /limits/{action}': '{"concurrency":1}',
};

/** Sends a request, and returns its status and error. Does not read a stream of events. */
export async function ask({ url }: TasksServer, operation: string, headers: Record<string, string> = {}, id = ID) {
  const [method = '', path = ''] = operation.split(' ');
  if (path === '/tasks/events' && method === 'get') {
    const response = await fetch(`${url}${path}`, { headers: { ...headers, Connection: 'close' } });
    if (response.ok) await response.body?.cancel();
    return { status: response.status, error: response.ok ? undefined : (await response.json()).error };
  }
  const all = /(redrive|purge|cancel)$/.test(operation) ? '{"all":true}' : '{}';
  const body = bodies[operation] ?? (/^(post|put)/.test(operation) ? all : null);
  const answer = await request(url + path.replace(/\{\w+\}/, id), { method: method.toUpperCase(), headers, body });
  return { status: answer.status, error: answer.body?.error, headers: answer.headers, body: answer.body };
}

/** Status of each operation that is allowed. */
export const outcomeOf = (operation: string) => {
  if (operation === 'post /tasks' || operation === 'post /tasks/batch') return 202;
  if (operation.endsWith('/queue/tasks') || operation.startsWith('put /schedules')) return 400;
  // Only the first of two removes limits.
  if (operation === 'delete /limits/{action}') return [204, 404];
  return /\{(id|name)\}/.test(operation) ? 404 : 200;
};
