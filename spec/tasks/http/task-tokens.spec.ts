import { expect } from 'chai';
import { loadRoles, type Scope } from '../../../main/ticker/policy.ts';
import { discard } from '../../store/settlements.ts';
import { onceForSuite } from '../../support/cleanup.ts';
import { captureLog } from '../../support/log.ts';
import { request } from '../../support/program.ts';
import { connect, Refused } from '../../support/websocket.ts';
import { followEvents } from './event-client.ts';
import { ask, bearer, ID, operations, type Services, startSecured } from './secured-services.ts';
import { startTasksServer } from './tasks-server.ts';

/** Returns the ids that a search with this token finds, the last accepted first. */
async function found({ tasks }: Services, headers: Record<string, string>): Promise<string[]> {
  const { body } = await request(`${tasks.tasksUrl}/search`, { headers });
  expect(body.total).to.equal(body.tasks.length);
  return body.tasks.map(({ id }: { id: string }) => id);
}

const post = (url: string, body: object, headers: Record<string, string> = {}) =>
  request(url, { method: 'POST', body: JSON.stringify(body), headers });

/** Submits a task as a user with all rights. Returns its id. */
async function submit({ tasks, token }: Services, fields: object = {}): Promise<string> {
  return tasks.submitTask(fields, bearer(await token()));
}

/** Creates a token for the tasks of a path, such as `tasks/<id>`. Returns its header. */
async function tokenFor({ tasks, token }: Services, path: string, body: object = {}) {
  const answer = await post(`${tasks.url}/${path}/token`, body, bearer(await token()));
  expect([answer.status, answer.body.expires_in]).to.deep.equal([200, 3600]);
  return bearer(answer.body.token);
}

describe('a token for tasks', () => {
  const shared = onceForSuite(() => startSecured());
  const scopeOf = async (role: string): Promise<Scope> => (await loadRoles(captureLog().log))(role);

  it('reads, follows and cancels its own task, and opens no other path of either service', async () => {
    const services = await startSecured();
    const { tasks, ticker } = services;
    const [own, other] = [await submit(services), await submit(services)];
    const headers = await tokenFor(services, `tasks/${own}`, { cancel: true });
    const opened = ['/tasks', '/tasks/events', '/tasks/search'].flatMap((path) => [`get ${path}`, `head ${path}`]);
    for (const operation of operations) {
      const hidden = /^(get|head|delete) \/tasks\/\{id\}$/.test(operation);
      const { status } = await ask(tasks, operation, headers, hidden ? other : own);
      expect(status, operation).to.equal(opened.includes(operation) ? 200 : hidden ? 404 : 403);
    }
    const refused = await connect(ticker.stream, { token: headers.Authorization.slice(7) }).catch((error) => error);
    expect(refused).to.be.instanceOf(Refused).with.property('status', 500);
    expect((await request(`${ticker.url}/prices/history`, { headers })).status).to.equal(403);
    expect((await ask(tasks, 'get /tasks/{id}', headers, own)).body).to.include({ id: own, status: 'queued' });
    expect(await found(services, headers)).to.deep.equal([own]);
    expect((await ask(tasks, 'delete /tasks/{id}', headers, own)).status).to.equal(204);
    expect((await ask(tasks, 'get /tasks/{id}', bearer(await services.token()), other)).status).to.equal(200);
  });

  it('shows all tasks of a limit key, and no callback to a host of that name', async () => {
    const services = await startSecured();
    const { tasks } = services;
    const limit_key = 'acme & söhne';
    const [first, second] = [await submit(services, { limit_key }), await submit(services, { limit_key })];
    const hidden = [await submit(services), await submit(services, { action: 'callback', limit_key })];
    const headers = await tokenFor(services, `limit-keys/${encodeURIComponent(limit_key)}`, { cancel: true });
    for (const delivery of await tasks.takeAll(4)) if (delivery.id !== second) await tasks.complete(delivery);
    const { body } = await request(tasks.tasksUrl, { headers });
    expect(body.tasks.map(({ id }: { id: string }) => id)).to.deep.equal([first]);
    expect(await found(services, headers)).to.deep.equal([second, first]);
    expect((await request(`${tasks.tasksUrl}?action=sum`, { headers })).status).to.equal(403);
    const olderThan = async (id = '') => (await request(`${tasks.tasksUrl}?before=${id}`, { headers })).status;
    expect([await olderThan(first), await olderThan(hidden[0]), await olderThan(ID)]).to.deep.equal([200, 400, 400]);
    for (const id of [first, second, ...hidden])
      expect((await ask(tasks, 'get /tasks/{id}', headers, id)).status).to.equal(hidden.includes(id) ? 404 : 200);
    expect((await ask(tasks, 'delete /tasks/{id}', headers, first)).status).to.equal(409);
    expect((await ask(tasks, 'post /limit-keys/{key}/token', headers, 'x')).status).to.equal(403);
  });

  it('does not cancel unless that is asked for, and shows only its tasks in the event stream, also those after the last event that a client has seen', async () => {
    const services = await startSecured();
    const { tasks } = services;
    const id = await submit(services);
    const headers = await tokenFor(services, `tasks/${id}`);
    expect((await ask(tasks, 'delete /tasks/{id}', headers, id)).status).to.equal(403);
    const token = headers.Authorization.slice(7);
    const client = await followEvents(tasks.url, undefined, undefined, token);
    const seen = tasks.events.idOf(tasks.events.now());
    const other = await submit(services);
    tasks.events.record({ event: 'paused', at: 1 });
    for (const delivery of await tasks.takeAll(2)) await tasks.settle(delivery, discard('no'));
    for (const last of [client, await followEvents(tasks.url, seen, undefined, token)])
      expect((await last.next())?.data).to.include({ id, status: 'failed' });
    const last = client.lastId();
    expect(last, 'tells no number of events').to.match(/^[0-9a-f]{32}$/);
    expect(tasks.events.after(last)?.seen).to.be.within(tasks.events.now().seen - 1, tasks.events.now().seen);
    for (const wrong of ['0'.repeat(32), last.toUpperCase()]) expect(tasks.events.after(wrong)).to.equal(undefined);
    await tasks.queue.purge({ ids: [other] });
    await tasks.queue.redrive({});
    const { data } = (await client.next()) ?? {};
    expect(data).to.include({ id, status: 'queued' }).and.not.have.any.keys('submitter', 'limitKey');
    for (let n = 0; n < 10_001; n++) tasks.events.record({ event: 'completed', id: other, at: 1 });
    const late = await followEvents(tasks.url, seen, undefined, token);
    expect(await late.next()).to.deep.include({ event: 'gap', data: { missed: null } });
  });

  it('can be created by whoever may do the same, and by no other token for tasks', async () => {
    const { tasks, token } = shared();
    const id = await submit(shared());
    const create = async (headers: Record<string, string>, body = {}, path = `tasks/${id}`) =>
      (await post(`${tasks.url}/${path}/token`, body, headers)).status;
    const viewer = bearer(await token('v', await scopeOf('viewer')));
    expect(await create(viewer)).to.equal(200);
    expect(await create(viewer, {}, 'limit-keys/acme')).to.equal(200);
    for (const path of [`tasks/${id}`, 'limit-keys/acme'])
      expect(await create(viewer, { cancel: true }, path)).to.equal(403);
    expect(await create(await tokenFor(shared(), `tasks/${id}`, { cancel: true }))).to.equal(403);
    expect(await create(viewer, {}, `tasks/${ID}`)).to.equal(404);
    const open = await startTasksServer();
    const known = await open.submitTask();
    for (const path of [`tasks/${known}`, 'limit-keys/acme'])
      expect((await post(`${open.url}/${path}/token`, {})).status).to.equal(404);
  });

  it('is refused with the wrong field', async () => {
    const { tasks, token } = shared();
    const headers = bearer(await token());
    const id = await submit(shared());
    for (const [body, path] of [
      ...[0, 86_401, '60'].map((expires_in) => [{ expires_in }, '/expires_in'] as const),
      [{ cancel: 1 }, '/cancel'],
      [{ expires: 60 }, '/expires'],
    ] as const) {
      const answer = await post(`${tasks.url}/tasks/${id}/token`, body, headers);
      expect(answer.status).to.equal(400);
      expect(answer.body).to.include({ error: 'invalid token request', path });
    }
    const error = 'limit_key must be a text of 1 to 255 characters';
    for (const key of ['x'.repeat(256), '%ff']) {
      const answer = await post(`${tasks.url}/limit-keys/${key}/token`, {}, headers);
      expect(answer).to.deep.include({ status: 400, body: { error } });
    }
  });

  it('expires when that is asked for, can be revoked, and never evicts the token of an API key', async () => {
    const services = await startSecured({ maxTokensPerKey: 2 });
    const { tasks, token } = services;
    const id = await submit(services);
    const own = bearer(await token());
    const read = async (headers: Record<string, string>) => (await ask(tasks, 'get /tasks/{id}', headers, id)).status;
    const create = async (body: object) => bearer((await post(`${tasks.url}/tasks/${id}/token`, body, own)).body.token);
    const [evicted, revoked, kept] = [await create({}), await create({}), await create({ expires_in: 86_400 })];
    await request(`${tasks.url}/auth/token`, { method: 'DELETE', headers: revoked });
    expect(await Promise.all([own, evicted, revoked, kept].map(read))).to.deep.equal([200, 401, 401, 200]);
  });

  it('of a submitter shows and cancels what its user has submitted', async () => {
    const services = await startSecured();
    const { tasks, token } = services;
    const submitter = bearer(await token('alice', await scopeOf('submitter')));
    const client = await followEvents(tasks.url, undefined, undefined, submitter.Authorization.slice(7));
    const other = await submit(services);
    const [done, waiting] = [await tasks.submitTask({}, submitter), await tasks.submitTask({}, submitter)];
    expect((await client.next())?.data).to.include({ id: done, status: 'queued' });
    for (const delivery of await tasks.takeAll(2)) await tasks.complete(delivery);
    const { body } = await request(tasks.tasksUrl, { headers: submitter });
    expect(body.tasks.map(({ id }: { id: string }) => id)).to.deep.equal([done]);
    expect(await found(services, submitter)).to.deep.equal([waiting, done]);
    const statusOf = async (operation: string, id: string) => (await ask(tasks, operation, submitter, id)).status;
    for (const [operation, id, status] of [
      ['get /tasks/{id}', other, 404],
      ['delete /tasks/{id}', other, 404],
      ['post /tasks/{id}/token', other, 404],
      ['get /tasks/{id}', done, 200],
      ['post /tasks/{id}/token', waiting, 200],
      ['delete /tasks/{id}', waiting, 204],
    ] as const)
      expect(await statusOf(operation, id), operation).to.equal(status);
    const allowed = '/tasks /tasks/batch /tasks/search /tasks/events /tasks/{id} /tasks/{id}/token /actions'.split(' ');
    for (const operation of operations.filter((each) => !allowed.includes(each.split(' ')[1] ?? '')))
      expect(await statusOf(operation, done), operation).to.equal(403);
  });
});
