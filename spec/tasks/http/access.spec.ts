import { expect } from 'chai';
import { loadRoles, type Scope } from '../../../main/ticker/policy.ts';
import { onceForSuite } from '../../support/cleanup.ts';
import { itemsOf } from '../../support/contract.ts';
import { captureLog } from '../../support/log.ts';
import { ManualClock } from '../../support/manual-clock.ts';
import { request } from '../../support/program.ts';
import { followEvents } from './event-client.ts';
import {
  ask,
  bearer,
  ID,
  operations,
  operationsOf,
  outcomeOf,
  startSecured,
  user,
  withHead,
} from './secured-services.ts';

describe('service B with TASKS_REQUIRE_TOKEN', () => {
  const shared = onceForSuite(() => startSecured());

  it('requires a permission for every operation of the contract', () => {
    const described = itemsOf('tasks').flatMap(([path, item]) =>
      Object.keys(item).map((method) => `${method} ${path}`),
    );
    const guarded = /^(get|head|post|put|delete) (?!(\/|\/\{path\}|\/auth\/token)$)/;
    expect(operations).to.have.members(described.filter((operation) => guarded.test(operation)));
  });

  it('refuses every request without a token, and answers 404 or 405 only to one with a token', async () => {
    const { tasks, token } = shared();
    for (const operation of [...operations, 'put /tasks', 'get /nothing', 'get /tasks?token=x']) {
      const { status, error, headers } = await ask(tasks, operation);
      expect(status, operation).to.equal(401);
      if (operation.startsWith('head')) continue;
      expect(error, operation).to.equal('authentication required');
      if (headers !== undefined) expect(headers.get('www-authenticate'), operation).to.equal('Bearer');
    }
    expect((await tasks.queue.counts()).accepted).to.equal(0);
    const headers = bearer(await token());
    expect((await ask(tasks, 'put /tasks', headers)).status).to.equal(405);
    expect((await ask(tasks, 'get /nothing', headers)).status).to.equal(404);
  });

  it('refuses a token that is invalid, revoked, expired, of another key, or not sent as a bearer token', async () => {
    const clock = new ManualClock();
    const { tasks, ticker, token } = await startSecured({ lifetimeSeconds: 60, clock });
    const expired = bearer(await token());
    expect((await ask(tasks, 'get /queue', expired)).status).to.equal(200);
    clock.advance(60_000);
    const revoked = await token();
    await ticker.tokens.revoke((await ticker.tokens.verify(revoked)) as never);
    for (const [what, headers] of Object.entries<Record<string, string>>({
      invalid: bearer('v3.local.x'),
      revoked: bearer(revoked),
      expired,
      'of another key': bearer(await shared().token()),
      'another scheme': { Authorization: `Basic ${await token()}` },
      'in a subprotocol': { 'Sec-WebSocket-Protocol': `bearer.${await token()}` },
    })) {
      for (const operation of ['get /tasks', 'post /tasks', 'get /tasks/events', 'get /nothing']) {
        const { status, error } = await ask(tasks, operation, headers);
        expect([status, error], `${operation}, ${what}`).to.deep.equal([401, 'authentication required']);
      }
    }
  });

  const policy = { name: 'p', group: 'user' } as const;
  for (const [permission, required] of Object.entries(operationsOf)) {
    it(`requires the permission to ${permission} for ${required.join(', ')}`, async () => {
      const { tasks, token } = shared();
      const [action = '', resource = ''] = permission.split(' ');
      const only: Scope = [{ ...policy, actions: [action], resources: [resource], effect: 'allow' }];
      const denied: Scope = [...user, { ...policy, actions: [action], resources: [resource], effect: 'deny' }];
      const allowing = [bearer(await token('a', only)), bearer(await token())];
      const refusing = [bearer(await token('b', denied)), bearer(await token('b', []))];
      for (const operation of required.flatMap(withHead)) {
        for (const headers of allowing) {
          expect((await ask(tasks, operation, headers)).status, operation).to.be.oneOf([outcomeOf(operation)].flat());
        }
        for (const headers of refusing) {
          const { status, error } = await ask(tasks, operation, headers);
          expect(status, operation).to.equal(403);
          if (!operation.startsWith('head')) expect(error, operation).to.equal('action not allowed');
        }
      }
    });
  }

  for (const [role, mayDo] of Object.entries<(permission: string) => boolean>({
    viewer: (permission) => permission.startsWith('read'),
    operator: () => true,
  })) {
    it(`lets the role ${role} do what the guide says, and nothing else`, async () => {
      const { tasks, token } = shared();
      const headers = bearer(await token('r', (await loadRoles(captureLog().log))(role)));
      for (const [permission, required] of Object.entries(operationsOf))
        for (const operation of required) {
          const { status } = await ask(tasks, operation, headers);
          expect(status, operation).to.be.oneOf(mayDo(permission) ? [outcomeOf(operation)].flat() : [403]);
        }
    });
  }

  it('exchanges and revokes tokens itself, within the rate limit of service A', async () => {
    const { tasks, ticker } = await startSecured({ perMinute: 2 });
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
    const { tasks, token } = await startSecured({ corsOrigins: [Origin] });
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
    for (const [headers, status] of [
      [{ Origin }, 401],
      [{ Origin, ...bearer(await token()) }, 200],
    ] as const) {
      const answer = await ask(tasks, 'get /tasks', headers);
      expect([answer.status, answer.headers?.get('access-control-allow-origin')]).to.deep.equal([status, Origin]);
    }
  });

  it('makes a task for each user of the same idempotency key', async () => {
    const { tasks, token } = shared();
    const submit = async (userId: string, action = 'sum') => {
      const headers = { ...bearer(await token(userId)), 'Idempotency-Key': 'k' };
      return tasks.ask('POST /tasks', { action }, headers);
    };
    const [first, again, other] = [await submit('a'), await submit('a'), await submit('b', 'x')];
    expect([first[0], again, other[0]]).to.deep.equal([202, first, 202]);
    const ids = (await tasks.queued()).map(({ id }) => id);
    expect(ids.slice(-2)).to.deep.equal([first[1].id, other[1].id]);
    expect((await submit('b'))[0]).to.equal(422);
    const repeated = { tasks: [{ action: 'sum', idempotency_key: 'k' }] };
    const inBatch = async (userId: string) =>
      (await tasks.ask('POST /tasks/batch', repeated, bearer(await token(userId))))[1].tasks[0].id;
    expect(await inBatch('a')).to.equal(first[1].id);
    expect(await inBatch('c')).to.not.equal(first[1].id);
  });

  it('accepts only submissions of the limit key to which the token is restricted', async () => {
    const { tasks, token } = shared();
    const only = { actions: ['create'], resources: ['task'], tasks: { limit_key: 'acme' } };
    const headers = bearer(await token('c', [{ ...policy, ...only, effect: 'allow' }]));
    for (const [limit_key, status] of [['acme', 202] as const, ['globex', 403] as const, [undefined, 403] as const]) {
      const task = { action: 'sum', limit_key };
      const batch = { tasks: [{ ...task, limit_key: 'acme' }, task] };
      const [[alone], [together]] = [
        await tasks.ask('POST /tasks', task, headers),
        await tasks.ask('POST /tasks/batch', batch, headers),
      ];
      expect([alone, together], limit_key).to.deep.equal([status, status]);
    }
  });

  it('ends an event stream once its token is revoked, and sends nothing more', async () => {
    const { tasks, ticker, token } = shared();
    const text = await token();
    const client = await followEvents(tasks.url, undefined, undefined, text);
    tasks.events.record({ event: 'accepted', id: ID, at: 1 });
    expect((await client.next())?.event).to.equal('accepted');
    await ticker.tokens.revoke((await ticker.tokens.verify(text)) as never);
    tasks.events.record({ event: 'completed', id: ID, at: 1 });
    expect(await client.next()).to.equal(undefined);
  });

  it('answers 503 while the token store is unavailable, and logs no token', async () => {
    const { tasks, ticker, token } = await startSecured();
    const text = await token();
    await ticker.tokens.store.close();
    for (const operation of ['get /tasks', 'put /tasks', 'get /nothing', 'put /nothing']) {
      const { status, error } = await ask(tasks, operation, bearer(text));
      expect([status, error], operation).to.deep.equal([503, 'token store unavailable']);
    }
    expect(JSON.stringify(tasks.lines)).to.not.include(text);
  });
});
