import { mock } from 'node:test';
import { expect } from 'chai';
import { tokenAccess } from '../../../main/process/start-services.ts';
import { authRoutes } from '../../../main/ticker/auth.ts';
import { loadRoles, type Scope } from '../../../main/ticker/policy.ts';
import { discard } from '../../store/settlements.ts';
import { messageOf } from '../../store/stage.ts';
import { onceForSuite } from '../../support/cleanup.ts';
import { itemsOf } from '../../support/contract.ts';
import { captureLog } from '../../support/log.ts';
import { ManualClock } from '../../support/manual-clock.ts';
import { request } from '../../support/program.ts';
import { connectRaw } from '../../support/raw-connection.ts';
import { startTickerBundle, type TickerBundleOptions } from '../../support/ticker-bundle.ts';
import { until } from '../../support/until.ts';
import { connect } from '../../support/websocket.ts';
import { followEvents } from './event-client.ts';
import { startTasksServer } from './tasks-server.ts';

const ID = '00000000-0000-4000-8000-000000000000';

/** Operations of service B except `/auth/token`, by the permission that they require. HEAD requires that of GET. */
const operationsOf: Record<string, string[]> = {
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

const withHead = (operation: string) =>
  operation.startsWith('get') ? [operation, operation.replace('get', 'head')] : [operation];
const operations = Object.values(operationsOf).flat().flatMap(withHead);

const bodies: Record<string, object> = {
  'post /tasks': { action: 'x' },
  'post /tasks/batch': { tasks: [{ action: 'x' }] },
  'put /limits/{action}': { concurrency: 1 },
};

const outcomeOf = (operation: string) => {
  if (operation === 'post /tasks' || operation === 'post /tasks/batch') return 202;
  if (operation.endsWith('/queue/tasks') || operation.startsWith('put /schedules')) return 400;
  if (operation === 'delete /limits/{action}') return 204;
  return /\{(id|name)\}/.test(operation) ? 404 : 200;
};

/** Answer to an operation that is refused. That to HEAD has no body. */
const refusal = (operation: string, status: number, error: string) => ({
  status,
  error: operation.startsWith('head') ? undefined : error,
});

const user: Scope = [{ name: 'user', group: 'user', actions: '*', resources: '*', effect: 'allow' }];
const scopeOf = async (role: string): Promise<Scope> => (await loadRoles(captureLog().log))(role);
const bearer = (token: string) => ({ Authorization: `Bearer ${token}` });
const tokenIn = ({ Authorization }: ReturnType<typeof bearer>) => Authorization.slice(7);

/** Starts service B, which shares its tokens with service A. */
async function startSecured({ corsOrigins = [], ...options }: TickerBundleOptions & { corsOrigins?: string[] } = {}) {
  const ticker = await startTickerBundle(options);
  const { tokens } = ticker;
  const access = tokenAccess({ tokens, tokenRoutes: authRoutes(ticker.options) });
  const tasks = await startTasksServer({ access, corsOrigins, ...(options.clock && { clock: options.clock }) });
  const token = (userId = 'demo', scope = user) =>
    tokens.issue({ user_id: userId, role: 'user', apiKey: userId }, scope, '127.0.0.1');
  const signIn = async (userId?: string, scope?: Scope) => bearer(await token(userId, scope));
  /** Sends a request. Does not read a stream of events. */
  const ask = async (operation: string, headers: Record<string, string> = {}, id = ID) => {
    const [method = '', path = ''] = operation.split(' ');
    if (operation === 'get /tasks/events') {
      const response = await fetch(tasks.url + path, { headers: { ...headers, Connection: 'close' } });
      const { status, headers: answered } = response;
      const error = status === 200 ? response.body?.cancel() : (await response.json()).error;
      return { status, error: await error, headers: answered };
    }
    const all = /(redrive|purge|cancel)$/.test(operation) ? { all: true } : {};
    const body = /^(post|put)/.test(operation) ? JSON.stringify(bodies[operation] ?? all) : null;
    const init = { method: method.toUpperCase(), headers, body };
    const answer = await request(tasks.url + path.replace(/\{\w+\}/, id), init);
    return { ...answer, error: answer.body?.error };
  };
  return {
    ...{ tasks, ticker, signIn, ask },
    statusOf: async (...values: Parameters<typeof ask>) => (await ask(...values)).status,
    revoke: async (headers: ReturnType<typeof bearer>) =>
      ticker.tokens.revoke((await ticker.tokens.verify(tokenIn(headers))) as never),
    /** Submits a task as a user with all rights. Returns its id. */
    submit: async (fields: object = {}) => tasks.submitTask(fields, await signIn()),
    /** Creates a token for the tasks of a path, such as `tasks/<id>`. Returns its header. */
    async tokenFor(path: string, body: object = {}) {
      const [status, answer] = await tasks.ask(`POST /${path}/token`, body, await signIn());
      expect([status, answer.expires_in]).to.deep.equal([200, 3600]);
      return bearer(answer.token);
    },
  };
}

describe('service B with TASKS_REQUIRE_TOKEN', () => {
  const shared = onceForSuite(() => startSecured());

  it('requires a permission for every operation of the contract', () => {
    const described = itemsOf('tasks').flatMap(([path, item]) =>
      Object.keys(item).map((method) => `${method} ${path}`),
    );
    const guarded = /^(get|head|post|put|delete) (?!(\/|\/\{path\}|\/auth\/token)$)/;
    expect(operations).to.have.members(described.filter((operation) => guarded.test(operation)));
  });

  it('answers 401 to every request without a valid bearer token, and 404 or 405 only to one with it', async () => {
    const clock = new ManualClock();
    const { tasks, signIn, ask, statusOf, revoke } = await startSecured({ lifetimeSeconds: 60, clock });
    const expired = await signIn();
    expect(await statusOf('get /queue', expired)).to.equal(200);
    clock.advance(60_000);
    const [valid, revoked] = [await signIn(), await signIn()];
    await revoke(revoked);
    for (const [what, headers] of Object.entries<Record<string, string>>({
      none: {},
      invalid: bearer('v3.local.x'),
      ...{ revoked, expired },
      'of another key': await shared().signIn(),
      'another scheme': { Authorization: `Basic ${tokenIn(valid)}` },
      'in a subprotocol': { 'Sec-WebSocket-Protocol': `bearer.${tokenIn(valid)}` },
    })) {
      for (const operation of [...operations, 'put /tasks', 'get /nothing', 'get /tasks?token=x']) {
        const answer = await ask(operation, headers);
        const about = `${operation}, ${what}`;
        expect(answer, about).to.deep.include(refusal(operation, 401, 'authentication required'));
        expect(answer.headers.get('www-authenticate'), about).to.equal('Bearer');
      }
    }
    expect((await tasks.queue.counts()).accepted).to.equal(0);
    expect([await statusOf('put /tasks', valid), await statusOf('get /nothing', valid)]).to.deep.equal([405, 404]);
  });

  const policy = { name: 'p', group: 'user' } as const;
  for (const [permission, required] of Object.entries(operationsOf))
    it(`requires the permission to ${permission} for ${required.join(', ')}`, async () => {
      const { signIn, ask } = shared();
      const [action = '', resource = ''] = permission.split(' ');
      const rule = { ...policy, actions: [action], resources: [resource] };
      for (const [who, scope, isAllowed] of [
        ['one with this permission', [{ ...rule, effect: 'allow' }], true],
        ['one with all others', [...user, { ...rule, effect: 'deny' }], false],
        ['one with none', [], false],
        ['a viewer', await scopeOf('viewer'), action === 'read'],
        ['an operator', await scopeOf('operator'), true],
      ] as [string, Scope, boolean][]) {
        const headers = await signIn(who, scope);
        for (const operation of required.flatMap(withHead)) {
          const answer = await ask(operation, headers);
          const about = `${operation} by ${who}`;
          if (isAllowed) expect(answer.status, about).to.equal(outcomeOf(operation));
          else expect(answer, about).to.deep.include(refusal(operation, 403, 'action not allowed'));
        }
      }
    });

  it('exchanges and revokes tokens itself, within the rate limit of service A', async () => {
    const { tasks, ticker, statusOf } = await startSecured({ perMinute: 2 });
    const exchange = (at: string) =>
      request(`${at}/auth/token`, { method: 'POST', body: JSON.stringify({ api_key: ticker.apiKey }) });
    const { body } = await exchange(tasks.url);
    expect(body).to.include({ user_id: 'demo' });
    const headers = bearer(body.token);
    expect(await statusOf('get /tasks', headers)).to.equal(200);
    expect(await tasks.ask('DELETE /auth/token', undefined, headers)).to.deep.equal([204, '']);
    expect([await statusOf('get /tasks', headers), (await exchange(ticker.url)).status]).to.deep.equal([401, 200]);
    for (const { url } of [tasks, ticker]) expect((await exchange(url)).status).to.equal(429);
  });

  it('answers preflights of allowed origins without a token, and allows Authorization', async () => {
    const Origin = 'https://app.example.com';
    const { tasks, signIn, ask } = await startSecured({ corsOrigins: [Origin] });
    const wish = {
      'Access-Control-Request-Method': 'POST',
      'Access-Control-Request-Headers': 'authorization,idempotency-key',
    };
    for (const [origin, path, status] of [
      [Origin, '/tasks', 204],
      [Origin, '/auth/token', 204],
      ['https://evil.example', '/tasks', 401],
    ] as const) {
      const answer = await request(tasks.url + path, { method: 'OPTIONS', headers: { ...wish, Origin: origin } });
      expect(answer.status, `${origin} ${path}`).to.equal(status);
      const allowed = status === 204 ? wish['Access-Control-Request-Headers'] : null;
      expect(answer.headers.get('access-control-allow-headers')).to.equal(allowed);
    }
    for (const [headers, expected] of [
      [{}, 401],
      [await signIn(), 200],
    ] as const) {
      const answer = await ask('get /tasks', { Origin, ...headers });
      expect([answer.status, answer.headers.get('access-control-allow-origin')]).to.deep.equal([expected, Origin]);
    }
  });

  it('makes a task for each user of the same idempotency key', async () => {
    const { tasks, signIn } = shared();
    const submit = async (userId: string, action = 'sum') =>
      tasks.ask('POST /tasks', { action }, { ...(await signIn(userId)), 'Idempotency-Key': 'k' });
    const [first, again, other] = [await submit('a'), await submit('a'), await submit('b', 'x')];
    expect([first[0], again, other[0]]).to.deep.equal([202, first, 202]);
    expect((await tasks.queued()).map(({ id }) => id).slice(-2)).to.deep.equal([first[1].id, other[1].id]);
    expect((await submit('b'))[0]).to.equal(422);
    const repeated = { tasks: [{ action: 'sum', idempotency_key: 'k' }] };
    const inBatch = async (userId: string) =>
      (await tasks.ask('POST /tasks/batch', repeated, await signIn(userId)))[1].tasks[0].id;
    expect(await inBatch('a')).to.equal(first[1].id);
    expect(await inBatch('c')).to.not.equal(first[1].id);
  });

  it('accepts only submissions of the limit key to which the token is restricted', async () => {
    const { tasks, signIn } = shared();
    const only = { actions: ['create'], resources: ['task'], tasks: { limit_key: 'acme' } };
    const headers = await signIn('c', [{ ...policy, ...only, effect: 'allow' }]);
    for (const [limit_key, status] of [['acme', 202] as const, ['globex', 403] as const, [undefined, 403] as const]) {
      const task = { action: 'sum', limit_key };
      const batch = { tasks: [{ ...task, limit_key: 'acme' }, task] };
      expect((await tasks.ask('POST /tasks', task, headers))[0], limit_key).to.equal(status);
      expect((await tasks.ask('POST /tasks/batch', batch, headers))[0], limit_key).to.equal(status);
    }
  });

  it('ends an event stream once its token is revoked, and sends nothing more, also without an event', async () => {
    const clock = new ManualClock();
    const { tasks, signIn, revoke } = await startSecured({ clock });
    for (const isIdle of [false, true]) {
      const headers = await signIn();
      const client = await followEvents(tasks.url, headers);
      tasks.events.record({ event: 'accepted', id: ID, at: 1 });
      clock.advance(100);
      expect((await client.next())?.event).to.equal('accepted');
      await revoke(headers);
      if (!isIdle) tasks.events.record({ event: 'completed', id: ID, at: 1 });
      clock.advance(isIdle ? 15_000 : 50);
      expect(await client.next()).to.equal(undefined);
    }
  });

  it('streams no events for a client that has left while its token was checked', async () => {
    const { tasks, ticker, signIn } = await startSecured();
    const { Authorization } = await signIn();
    const verify = ticker.tokens.verify.bind(ticker.tokens);
    const { mock: checks } = mock.method(ticker.tokens, 'verify', async (token: string) => {
      await until(() => tasks.sockets.size === 0);
      return verify(token);
    });
    const lines = ['GET /tasks/events HTTP/1.1', 'Host: x', `Authorization: ${Authorization}`];
    const { socket } = await connectRaw(tasks.port, ...lines);
    await until(() => checks.callCount() === 1);
    socket.destroy();
    await until(() => [...tasks.requests.series()].length === 1);
    expect(tasks.events.subscribers).to.equal(0);
  });

  it('answers 503 while the token store is unavailable, continues open event streams, and logs no token', async () => {
    const { tasks, ticker, signIn, ask } = await startSecured();
    const headers = await signIn();
    const client = await followEvents(tasks.url, headers);
    await ticker.tokens.store.close();
    tasks.events.record({ event: 'accepted', id: ID, at: 1 });
    expect(await client.next()).to.include({ event: 'accepted' });
    for (const operation of ['get /tasks', 'put /tasks', 'get /nothing', 'put /nothing'])
      expect(await ask(operation, headers), operation).to.include({ status: 503, error: 'token store unavailable' });
    expect(JSON.stringify(tasks.lines)).to.not.include(tokenIn(headers));
  });

  it('redirects a browser from a task to the board without a token, because the board asks for the key', async () => {
    const { tasks } = shared();
    const init = { headers: { 'Sec-Fetch-Dest': 'document' }, redirect: 'manual' } as const;
    const { status, headers } = await request(`${tasks.tasksUrl}/${ID}`, init);
    expect([status, headers.get('location')]).to.deep.equal([303, `/?task=${ID}`]);
    expect(headers.get('cache-control')).to.equal('no-store');
  });
});

describe('a token for tasks', () => {
  const shared = onceForSuite(() => startSecured());

  it('reads, follows and cancels its own task, and opens no other path of either service', async () => {
    const { tasks, ticker, submit, tokenFor, statusOf, signIn } = await startSecured();
    const [own, other] = [await submit(), await submit()];
    const headers = await tokenFor(`tasks/${own}`, { cancel: true });
    const opened = ['/tasks', '/tasks/events', '/tasks/search'].flatMap((path) => withHead(`get ${path}`));
    // A task of a schedule has no submitter.
    await tasks.queue.publish(messageOf(ID));
    for (const operation of operations) {
      const hidden = /^(get|head|delete) \/tasks\/\{id\}$/.test(operation);
      const status = opened.includes(operation) ? 200 : hidden ? 404 : 403;
      for (const id of hidden ? [other, ID] : [own])
        expect(await statusOf(operation, headers, id), operation).to.equal(status);
    }
    const refused = await connect(ticker.stream, { token: tokenIn(headers) }).catch((error) => error);
    expect(refused).to.have.property('status', 500);
    expect((await request(`${ticker.url}/prices/history`, { headers })).status).to.equal(403);
    expect((await tasks.ask(`GET /tasks/${own}`, undefined, headers))[1]).to.include({ id: own, status: 'queued' });
    expect(await tasks.listed('/tasks/search', headers)).to.deep.equal([own]);
    expect(await statusOf('delete /tasks/{id}', headers, own)).to.equal(204);
    expect(await statusOf('get /tasks/{id}', await signIn(), other)).to.equal(200);
  });

  it('shows all tasks of a limit key, and no callback to a host of that name', async () => {
    const { tasks, submit, tokenFor, statusOf } = await startSecured();
    const limit_key = 'acme & "söhne"';
    const [first, second] = [await submit({ limit_key }), await submit({ limit_key })];
    const hidden = [await submit(), await submit({ action: 'callback', limit_key })];
    const headers = await tokenFor(`limit-keys/${encodeURIComponent(limit_key)}`, { cancel: true });
    expect(await statusOf('get /tasks/{id}', headers, hidden[1])).to.equal(404);
    for (const delivery of await tasks.takeAll(4)) if (delivery.id !== second) await tasks.complete(delivery);
    expect(await tasks.listed('/tasks', headers)).to.deep.equal([first]);
    expect(await tasks.listed('/tasks/search', headers)).to.deep.equal([second, first]);
    for (const [query, status] of [
      ['action=sum', 403],
      [`before=${first}`, 200],
      [`before=${hidden[0]}`, 400],
      [`before=${ID}`, 400],
    ] as const)
      expect(await statusOf(`get /tasks?${query}`, headers), query).to.equal(status);
    for (const id of [first, second, ...hidden])
      expect(await statusOf('get /tasks/{id}', headers, id)).to.equal(hidden.includes(id) ? 404 : 200);
    expect(await statusOf('delete /tasks/{id}', headers, first)).to.equal(409);
    for (const operation of ['post /tasks/{id}/token', 'post /limit-keys/{key}/token'])
      expect(await statusOf(operation, headers, second), operation).to.equal(403);
  });

  it('does not cancel unless that is asked for, and shows only its tasks in the event stream, also those after the last event that a client has seen', async () => {
    const { tasks, submit, tokenFor, statusOf } = await startSecured();
    const { events } = tasks;
    const id = await submit();
    const headers = await tokenFor(`tasks/${id}`);
    expect(await statusOf('delete /tasks/{id}', headers, id)).to.equal(403);
    const follow = (last = {}) => followEvents(tasks.url, { ...headers, ...last });
    const client = await follow();
    const seen = { 'Last-Event-ID': events.idOf(events.now()) };
    const other = await submit();
    events.record({ event: 'paused', at: 1 });
    for (const delivery of await tasks.takeAll(2)) await tasks.settle(delivery, discard('no'));
    for (const each of [client, await follow(seen)])
      expect((await each.next())?.data).to.include({ id, status: 'failed' });
    const last = client.lastId();
    expect(last, 'tells no number of events').to.match(/^[0-9a-f]{32}$/);
    expect(events.after(last)?.seen).to.be.within(events.now().seen - 1, events.now().seen);
    for (const wrong of ['0'.repeat(32), last.toUpperCase()]) expect(events.after(wrong)).to.equal(undefined);
    await tasks.queue.purge({ ids: [other] });
    await tasks.queue.redrive({});
    const { data } = (await client.next()) ?? {};
    expect(data).to.include({ id, status: 'queued' }).and.not.have.any.keys('submitter', 'limitKey');
    for (let n = 0; n < 10_001; n++) events.record({ event: 'completed', id: other, at: 1 });
    expect(await (await follow(seen)).next()).to.deep.include({ event: 'gap', data: { missed: null } });
  });

  it('can be created by whoever may do the same, and by no other token for tasks', async () => {
    const { tasks, signIn, submit, tokenFor } = shared();
    const id = await submit();
    const viewer = await signIn('v', await scopeOf('viewer'));
    const ofTask = await tokenFor(`tasks/${id}`, { cancel: true });
    for (const [creator, path, body, status] of [
      [viewer, `tasks/${id}`, {}, 200],
      [viewer, `limit-keys/${'x'.repeat(255)}`, {}, 200],
      [viewer, `tasks/${id}`, { cancel: true }, 403],
      [viewer, 'limit-keys/acme', { cancel: true }, 403],
      [viewer, `tasks/${ID}`, {}, 404],
      [ofTask, `tasks/${id}`, {}, 403],
    ] as const)
      expect((await tasks.ask(`POST /${path}/token`, body, creator))[0], path).to.equal(status);
    const open = await startTasksServer();
    for (const path of [`tasks/${await open.submitTask()}`, 'limit-keys/acme'])
      expect((await open.ask(`POST /${path}/token`, {}))[0]).to.equal(404);
  });

  it('is refused with the wrong field', async () => {
    const { tasks, signIn, submit } = shared();
    const headers = await signIn();
    const id = await submit();
    for (const [body, path] of [
      ...[0, 86_401, '60'].map((expires_in) => [{ expires_in }, '/expires_in'] as const),
      [{ cancel: 1 }, '/cancel'],
      [{ expires: 'x'.repeat(1010) }, '/expires'],
    ] as const) {
      const [status, answer] = await tasks.ask(`POST /tasks/${id}/token`, body, headers);
      expect({ status, ...answer }).to.include({ status: 400, error: 'invalid token request', path });
    }
    const [status] = await tasks.ask(`POST /tasks/${id}/token`, { expires: 'x'.repeat(1011) }, headers);
    expect(status, 'above 1 KiB').to.equal(413);
    const error = 'limit_key must be a text of 1 to 255 characters';
    for (const key of ['x'.repeat(256), '%ff'])
      expect(await tasks.ask(`POST /limit-keys/${key}/token`, {}, headers)).to.deep.equal([400, { error }]);
  });

  it('expires when that is asked for, can be revoked, and never evicts the token of an API key', async () => {
    const clock = new ManualClock();
    const { tasks, signIn, submit, statusOf } = await startSecured({ maxTokensPerKey: 2, clock });
    const id = await submit();
    const own = await signIn();
    const create = async (body: object) => bearer((await tasks.ask(`POST /tasks/${id}/token`, body, own))[1].token);
    const [evicted, revoked, kept] = [await create({}), await create({}), await create({ expires_in: 86_400 })];
    await tasks.ask('DELETE /auth/token', undefined, revoked);
    const brief = await create({ expires_in: 60 });
    const read = (headers: Record<string, string>) => statusOf('get /tasks/{id}', headers, id);
    expect(await Promise.all([own, evicted, revoked, kept, brief].map(read))).to.deep.equal([200, 401, 401, 200, 200]);
    clock.advance(60_000);
    expect([await read(kept), await read(brief)]).to.deep.equal([200, 401]);
  });

  it('of a submitter shows and cancels what its user has submitted', async () => {
    const { tasks, signIn, submit, statusOf } = await startSecured();
    const submitter = await signIn('alice', await scopeOf('submitter'));
    const client = await followEvents(tasks.url, submitter);
    const other = await submit();
    const [done, waiting] = [await tasks.submitTask({}, submitter), await tasks.submitTask({}, submitter)];
    expect((await client.next())?.data).to.include({ id: done, status: 'queued' });
    for (const delivery of await tasks.takeAll(2)) await tasks.complete(delivery);
    expect(await tasks.listed('/tasks', submitter)).to.deep.equal([done]);
    expect(await tasks.listed('/tasks/search', submitter)).to.deep.equal([waiting, done]);
    for (const [operation, id, status] of [
      ['get /tasks/{id}', other, 404],
      ['delete /tasks/{id}', other, 404],
      ['post /tasks/{id}/token', other, 404],
      ['get /tasks/{id}', done, 200],
      ['post /tasks/{id}/token', waiting, 200],
      ['delete /tasks/{id}', waiting, 204],
    ] as const)
      expect(await statusOf(operation, submitter, id), operation).to.equal(status);
    const allowed = '/tasks /tasks/batch /tasks/search /tasks/events /tasks/{id} /tasks/{id}/token /actions'.split(' ');
    for (const operation of operations.filter((each) => !allowed.includes(each.split(' ')[1] ?? '')))
      expect(await statusOf(operation, submitter, done), operation).to.equal(403);
  });
});
