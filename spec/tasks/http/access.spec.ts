import { expect } from 'chai';
import { tokenAccess } from '../../../main/process/start-services.ts';
import { authRouter } from '../../../main/ticker/auth.ts';
import type { Scope } from '../../../main/ticker/policy.ts';
import { MemoryTokenStore } from '../../../main/ticker/token-store.ts';
import { systemClock } from '../../../workers/shared/clock.ts';
import { itemsOf } from '../../support/contract.ts';
import { ManualClock } from '../../support/manual-clock.ts';
import { request } from '../../support/program.ts';
import { startTickerBundle, type TickerBundle, type TickerBundleOptions } from '../../support/ticker-bundle.ts';
import { followEvents } from './event-client.ts';
import { startTasksServer, type TasksServer } from './tasks-server.ts';

const ID = '00000000-0000-4000-8000-000000000000';
const user: Scope = [{ name: 'user', group: 'user', actions: '*', resources: '*', effect: 'allow' }];

interface Services {
  tasks: TasksServer;
  ticker: TickerBundle;
  /** Issues a token. */
  token(userId?: string, scope?: Scope): Promise<string>;
}

/** Starts service B, which shares its tokens with service A. */
async function start(options: TickerBundleOptions & { corsOrigins?: string[] } = {}): Promise<Services> {
  let tokenRoutes: Parameters<typeof tokenAccess>[0]['tokenRoutes'] | undefined;
  const ticker = await startTickerBundle({
    ...options,
    replace(real) {
      tokenRoutes = authRouter(real).routes() as typeof tokenRoutes;
      return {};
    },
  });
  if (tokenRoutes === undefined) throw new Error('service A has no options');
  const { tokens } = ticker;
  const { corsOrigins = [] } = options;
  const tasks = await startTasksServer({ access: tokenAccess({ tokens, tokenRoutes }), corsOrigins });
  const token = (userId = 'demo', scope = user) =>
    tokens.issue({ user_id: userId, role: 'user', apiKey: userId }, scope, '127.0.0.1');
  return { tasks, ticker, token };
}

const bearer = (token: string) => ({ Authorization: `Bearer ${token}` });

/** Required permission of every operation of service B except `/auth/token`. */
const permissions: Record<string, [action: string, resource: string]> = {
  'get /tasks': ['read', 'task'],
  'head /tasks': ['read', 'task'],
  'post /tasks': ['create', 'task'],
  'get /tasks/events': ['read', 'task'],
  'head /tasks/events': ['read', 'task'],
  'get /tasks/{id}': ['read', 'task'],
  'head /tasks/{id}': ['read', 'task'],
  'delete /tasks/{id}': ['delete', 'task'],
  'get /actions': ['read', 'task'],
  'head /actions': ['read', 'task'],
  'get /dead-letters': ['read', 'dead_letter'],
  'head /dead-letters': ['read', 'dead_letter'],
  'get /dead-letters/reasons': ['read', 'dead_letter'],
  'head /dead-letters/reasons': ['read', 'dead_letter'],
  'post /dead-letters/redrive': ['create', 'task'],
  'post /dead-letters/purge': ['delete', 'dead_letter'],
  'delete /dead-letters/{id}': ['delete', 'dead_letter'],
  'post /dead-letters/{id}/retry': ['create', 'task'],
  'get /queue/tasks': ['read', 'task'],
  'head /queue/tasks': ['read', 'task'],
  'get /queue': ['read', 'queue'],
  'head /queue': ['read', 'queue'],
  'get /queue/history': ['read', 'queue'],
  'head /queue/history': ['read', 'queue'],
  'post /queue/pause': ['update', 'queue'],
  'post /queue/resume': ['update', 'queue'],
};

const bodies: Record<string, string> = {
  'post /tasks': '{"action":"x"}',
  'post /dead-letters/redrive': '{"all":true}',
  'post /dead-letters/purge': '{"all":true}',
};

/** Sends a request and returns its status and error. Does not read a stream of events. */
async function ask({ url }: TasksServer, operation: string, headers: Record<string, string> = {}) {
  const [method = '', path = ''] = operation.split(' ');
  if (path === '/tasks/events' && method === 'get') {
    const response = await fetch(`${url}${path}`, { headers: { ...headers, Connection: 'close' } });
    if (response.ok) await response.body?.cancel();
    return { status: response.status, error: response.ok ? undefined : (await response.json()).error };
  }
  const body = bodies[operation] ?? null;
  const answer = await request(url + path.replace('{id}', ID), { method: method.toUpperCase(), headers, body });
  return { status: answer.status, error: answer.body?.error, headers: answer.headers };
}

const outcomes: Record<string, number> = {
  'post /tasks': 202,
  'get /queue/tasks': 400,
  'head /queue/tasks': 400,
  'get /tasks/{id}': 404,
  'head /tasks/{id}': 404,
  'delete /tasks/{id}': 404,
  'delete /dead-letters/{id}': 404,
  'post /dead-letters/{id}/retry': 404,
};

describe('service B with TASKS_REQUIRE_TOKEN', () => {
  it('has a permission for every operation of the contract', () => {
    const operations = itemsOf('tasks')
      .filter(([path]) => !['/', '/{path}', '/auth/token'].includes(path))
      .flatMap(([path, item]) => Object.keys(item).map((method) => `${method} ${path}`))
      .filter((operation) => /^(get|head|post|delete) /.test(operation));
    expect(Object.keys(permissions)).to.have.members(operations);
  });

  it('refuses every request without a valid token', async () => {
    const { tasks, ticker, token } = await start();
    const revoked = await token();
    await ticker.tokens.revoke((await ticker.tokens.verify(revoked)) as never);
    const strangers = await startTickerBundle();
    const headers: Record<string, Record<string, string>> = {
      'no token': {},
      'an invalid token': bearer('v3.local.x'),
      'a revoked token': bearer(revoked),
      'a token of another key': bearer(await strangers.token()),
      'another scheme': { Authorization: `Basic ${await token()}` },
      'a token in a subprotocol': { 'Sec-WebSocket-Protocol': `bearer.${await token()}` },
    };
    for (const [what, each] of Object.entries(headers)) {
      for (const operation of [...Object.keys(permissions), 'put /tasks', 'get /nothing', 'get /tasks?token=x']) {
        const { status, error } = await ask(tasks, operation, each);
        expect(status, `${operation} with ${what}`).to.equal(401);
        if (!operation.startsWith('head')) expect(error).to.equal('authentication required');
      }
    }
    const { headers: answered } = await ask(tasks, 'get /tasks');
    expect(answered?.get('www-authenticate')).to.equal('Bearer');
    expect((await tasks.queue.counts()).accepted).to.equal(0);
  });

  it('refuses a token once it has expired', async () => {
    const clock = new ManualClock();
    const { tasks, token } = await start({ lifetimeSeconds: 60, clock });
    const headers = bearer(await token());
    expect((await ask(tasks, 'get /queue', headers)).status).to.equal(200);
    clock.advance(60_000);
    for (const operation of Object.keys(permissions)) {
      expect((await ask(tasks, operation, headers)).status, operation).to.equal(401);
    }
  });

  it('lets a token with the user policy do everything', async () => {
    const { tasks, token } = await start();
    const headers = bearer(await token());
    for (const operation of Object.keys(permissions)) {
      expect((await ask(tasks, operation, headers)).status, operation).to.equal(outcomes[operation] ?? 200);
    }
    expect((await ask(tasks, 'put /tasks', headers)).status).to.equal(405);
    expect((await ask(tasks, 'get /nothing', headers)).status).to.equal(404);
  });

  it('evaluates the policies for each operation', async () => {
    const { tasks, token } = await start();
    const policy = { name: 'p', group: 'user' } as const;
    for (const [operation, [action, resource]] of Object.entries(permissions)) {
      const allowing: Scope = [{ ...policy, actions: [action], resources: [resource], effect: 'allow' }];
      const denying: Scope = [...user, { ...policy, actions: [action], resources: [resource], effect: 'deny' }];
      const allowed = await ask(tasks, operation, bearer(await token('a', allowing)));
      expect(allowed.status, `${operation} allowed`).to.equal(outcomes[operation] ?? 200);
      for (const scope of [denying, []]) {
        const { status, error } = await ask(tasks, operation, bearer(await token('b', scope)));
        expect(status, `${operation} not allowed`).to.equal(403);
        if (!operation.startsWith('head')) expect(error).to.equal('action not allowed');
      }
    }
  });

  it('serves the task board to everybody', async () => {
    const { tasks } = await start();
    for (const path of ['/', '/tasks.css', '/shared/design.css']) {
      expect((await request(tasks.url + path)).status, path).to.equal(200);
    }
    expect((await request(tasks.url, { method: 'POST' })).status).to.equal(405);
  });

  it('exchanges and revokes tokens itself, within the rate limit of service A', async () => {
    const { tasks, ticker } = await start({ perMinute: 2 });
    const { apiKey, url } = ticker;
    const exchange = (at: string) =>
      request(`${at}/auth/token`, { method: 'POST', body: JSON.stringify({ api_key: apiKey }) });
    const { body } = await exchange(tasks.url);
    expect(body).to.include({ user_id: 'demo' });
    expect((await ask(tasks, 'get /tasks', bearer(body.token))).status).to.equal(200);
    const revocation = await request(`${tasks.url}/auth/token`, { method: 'DELETE', headers: bearer(body.token) });
    expect(revocation.status).to.equal(204);
    expect((await ask(tasks, 'get /tasks', bearer(body.token))).status).to.equal(401);
    expect((await exchange(url)).status).to.equal(200);
    expect((await exchange(tasks.url)).status).to.equal(429);
    expect((await exchange(url)).status).to.equal(429);
  });

  it('answers preflights of allowed origins without a token, and allows Authorization', async () => {
    const Origin = 'https://app.example.com';
    const { tasks, token } = await start({ corsOrigins: [Origin] });
    const preflight = (origin: string, method: string, path = '/tasks') =>
      request(`${tasks.url}${path}`, {
        method: 'OPTIONS',
        headers: {
          Origin: origin,
          'Access-Control-Request-Method': method,
          'Access-Control-Request-Headers': 'authorization,idempotency-key',
        },
      });
    const { status, headers } = await preflight(Origin, 'POST');
    expect(status).to.equal(204);
    expect(headers.get('access-control-allow-headers')).to.equal('authorization,idempotency-key');
    expect((await preflight(Origin, 'POST', '/auth/token')).status).to.equal(204);
    expect((await preflight('https://evil.example', 'POST')).status).to.equal(401);
    const refused = await ask(tasks, 'get /tasks', { Origin });
    expect([refused.status, refused.headers?.get('access-control-allow-origin')]).to.deep.equal([401, Origin]);
    const answered = await ask(tasks, 'get /tasks', { Origin, ...bearer(await token()) });
    expect([answered.status, answered.headers?.get('access-control-allow-origin')]).to.deep.equal([200, Origin]);
  });

  it('makes a task for each user of the same idempotency key', async () => {
    const { tasks, token } = await start();
    const submit = async (userId: string, body = '{"action":"sum"}') => {
      const headers = { ...bearer(await token(userId)), 'Idempotency-Key': 'k' };
      return tasks.submit(body, { headers });
    };
    const [first, again, other] = [await submit('a'), await submit('a'), await submit('b', '{"action":"x"}')];
    expect([first.status, again.status, other.status]).to.deep.equal([202, 202, 202]);
    expect(again.body).to.deep.equal(first.body);
    expect((await tasks.queued()).map(({ id }) => id)).to.deep.equal([first.body.id, other.body.id]);
    expect((await submit('b')).status).to.equal(422);
  });

  it('ends an event stream once its token is revoked, and tells nothing more', async () => {
    const { tasks, ticker, token } = await start();
    const text = await token();
    const client = await followEvents(tasks.url, undefined, undefined, text);
    tasks.events.record({ event: 'accepted', id: ID, at: 1 });
    expect((await client.next())?.event).to.equal('accepted');
    await ticker.tokens.revoke((await ticker.tokens.verify(text)) as never);
    tasks.events.record({ event: 'completed', id: ID, at: 1 });
    expect(await client.next()).to.equal(undefined);
  });

  it('answers 503 while the token store is unavailable, and logs no token', async () => {
    const { tasks, ticker, token } = await start();
    const text = await token();
    await ticker.tokens.close();
    for (const operation of ['get /tasks', 'put /tasks', 'get /nothing', 'put /nothing']) {
      const { status, error } = await ask(tasks, operation, bearer(text));
      expect([status, error], operation).to.deep.equal([503, 'token store unavailable']);
    }
    expect(JSON.stringify(tasks.lines)).to.not.include(text);
  });

  it('takes the tokens of another node', async () => {
    const key = 'a secret of thirty-two bytes, ok';
    const shared = { store: new MemoryTokenStore({ clock: systemClock }), key };
    const [one, other] = [await start({ shared }), await start({ shared })];
    const headers = bearer(await one.token());
    expect((await ask(other.tasks, 'get /tasks', headers)).status).to.equal(200);
  });
});
