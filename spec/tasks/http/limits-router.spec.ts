import { expect } from 'chai';
import { onceForSuite } from '../../support/cleanup.ts';
import { request } from '../../support/program.ts';
import { startTasksServer, type TasksServer } from './tasks-server.ts';

const put = ({ url }: TasksServer, action: string, limits: unknown) =>
  request(`${url}/limits/${action}`, { method: 'PUT', body: JSON.stringify(limits) });
const remove = ({ url }: TasksServer, action: string) => request(`${url}/limits/${action}`, { method: 'DELETE' });
const list = async ({ url }: TasksServer) => (await request(`${url}/limits`)).body.limits;

describe('limits', () => {
  it('are set, listed with their use, replaced and removed', async () => {
    const server = await startTasksServer();
    expect(await list(server)).to.deep.equal([]);
    const limits = { concurrency: 20, rate: { count: 5, seconds: 1.5 }, per_key: { concurrency: 3 } };
    const { status, body } = await put(server, 'sum', limits);
    expect([status, body]).to.deep.equal([200, { action: 'sum', ...limits, source: 'api' }]);
    await put(server, 'a%2Fb', { rate: { count: 1, seconds: 60 } });
    await server.submitTask();
    await server.take();
    expect(await list(server)).to.deep.equal([
      { action: 'a/b', rate: { count: 1, seconds: 60 }, source: 'api', running: 0 },
      { action: 'sum', ...limits, source: 'api', running: 1 },
    ]);
    await put(server, 'sum', { concurrency: 1 });
    expect((await remove(server, 'a%2Fb')).status).to.equal(204);
    expect(await list(server)).to.deep.equal([{ action: 'sum', concurrency: 1, source: 'api', running: 1 }]);
    const again = await remove(server, 'a%2Fb');
    expect([again.status, again.body]).to.deep.equal([404, { error: 'limit not found' }]);
  });

  it('are not removed if they are those of the handlers module, which apply again after others', async () => {
    const limits = { concurrency: 2 };
    const rules = { actions: new Map([['own', { limits }]]), rejectUnknown: false };
    const server = await startTasksServer({ rules });
    await server.queue.setLimits('own', limits, 'module');
    const isRefused = async () => {
      const { status, body } = await remove(server, 'own');
      expect([status, body]).to.deep.equal([409, { error: 'limits belong to the handlers module' }]);
      expect(await list(server)).to.deep.equal([{ action: 'own', ...limits, source: 'module', running: 0 }]);
    };
    await isRefused();
    await put(server, 'own', { concurrency: 1 });
    expect((await remove(server, 'own')).status).to.equal(204);
    await isRefused();
  });

  it('show what a task waits for', async () => {
    const server = await startTasksServer();
    await put(server, 'sum', { concurrency: 2, per_key: { concurrency: 1 } });
    const ids = [];
    for (const limit_key of ['acme', 'acme', undefined, 'other']) ids.push(await server.submitTask({ limit_key }));
    await server.takeAll(2);
    const find = (id = '') => server.find(id);
    const acme = { action: 'sum', key: 'acme', concurrency: 1, running: 1 };
    expect(await find(ids[1])).to.deep.include({
      status: 'limited',
      limited_by: 'key',
      limit_key: 'acme',
      limit: acme,
    });
    const own = { action: 'sum', concurrency: 2, running: 2 };
    expect(await find(ids[3])).to.deep.include({ status: 'limited', limited_by: 'action', limit: own });
    const { tasks, ...counts } = (await request(`${server.url}/queue/tasks?state=limited`)).body;
    expect(counts).to.deep.equal({ count: 2, total: 2 });
    expect(tasks.map(({ id, limit }: { id: string; limit: object }) => [id, limit])).to.deep.equal([
      [ids[1], acme],
      [ids[3], own],
    ]);
    expect(tasks[0]).to.include({ status: 'limited', limited_by: 'key', limit_key: 'acme' });
    expect((await request(`${server.url}/queue`)).body).to.include({
      accepted: 4,
      waiting: 0,
      limited: 2,
      in_flight: 2,
    });
    expect(await find(ids[0])).to.include({ limit_key: 'acme' });
  });

  it('show when a rate lets the next task start', async () => {
    const server = await startTasksServer();
    await put(server, 'sum', { rate: { count: 1, seconds: 3600 } });
    const ids = [await server.submitTask(), await server.submitTask()];
    const delivery = await server.take();
    const startedAt = 1_000_000;
    await server.queue.store.report([{ delivery, startedAt, progress: undefined }]);
    const { body } = await request(`${server.tasksUrl}/${ids[1]}`);
    const rate = { count: 1, seconds: 3600 };
    expect(body.limit).to.deep.equal({ action: 'sum', rate, running: 1, next_start_at_ms: startedAt + 3_600_000 });
  });

  describe('that are wrong', () => {
    const shared = onceForSuite(() => startTasksServer());
    it('are refused with the field and what it must be', async () => {
      for (const [limits, path, detail] of [
        [{}, '', 'needs concurrency, rate or per_key'],
        [{ concurrency: 0 }, '/concurrency', 'must be a whole number from 1 to 100000'],
        [{ concurrency: 1.5 }, '/concurrency', 'must be a whole number from 1 to 100000'],
        [{ concurency: 1 }, '/concurency', 'is unknown'],
        [{ perKey: { concurrency: 1 } }, '/perKey', 'is unknown'],
        [{ rate: 5 }, '/rate', 'must be an object'],
        [{ rate: { count: 10_001, seconds: 1 } }, '/rate/count', 'must be a whole number from 1 to 10000'],
        [{ rate: { count: 1, seconds: 0 } }, '/rate/seconds', 'must be seconds from 0.001 to 86400'],
        [{ rate: { count: 1, seconds: 1, minutes: 1 } }, '/rate/minutes', 'is unknown'],
        [{ per_key: {} }, '/per_key', 'needs concurrency or rate'],
        [{ concurrency: 1, per_key: [] }, '/per_key', 'must be an object'],
      ] as const) {
        const { status, body } = await put(shared(), 'sum', limits);
        expect([status, body]).to.deep.equal([400, { error: 'invalid limits', path, detail }]);
      }
      const error = 'the action of limits must have 1 to 200 characters, percent-encoded as UTF-8';
      for (const action of ['x'.repeat(201), '%zz', '%ED%A0%80']) {
        for (const refused of [await put(shared(), action, { concurrency: 1 }), await remove(shared(), action)])
          expect([refused.status, refused.body], action).to.deep.equal([400, { error }]);
      }
      expect(await list(shared())).to.deep.equal([]);
    });

    it('are refused for an action that submissions may not have', async () => {
      const schema = { type: 'object', required: ['n'] };
      const server = await startTasksServer({
        rules: { actions: new Map([['own', { schema }]]), rejectUnknown: true },
      });
      const { status, body } = await put(server, 'owm', { concurrency: 1 });
      expect([status, body]).to.deep.equal([400, { error: 'unknown action', nearest: ['own'] }]);
      expect((await put(server, 'own', { concurrency: 1 })).status).to.equal(200);
    });

    it('are refused if there are too many', async () => {
      const server = await startTasksServer();
      const actions = Array.from({ length: 1000 }, (_, index) => `action ${index}`);
      const use = { running: 0, nextStartAt: undefined };
      server.store.limits = () => actions.map((action) => ({ action, limits: {}, source: 'api', use }));
      const { status, body: full } = await put(server, 'sum', { concurrency: 1 });
      expect([status, full.error]).to.deep.equal([400, 'at most 1000 actions can have limits']);
      expect((await put(server, 'action%207', { concurrency: 2 })).status).to.equal(200);
    });
  });
});

describe('a limit key', () => {
  const shared = onceForSuite(() => startTasksServer());

  it('has 1 to 255 characters of any kind', async () => {
    for (const limit_key of ['a', 'x'.repeat(255), '"\\\n\u0000ü😀']) {
      const id = await shared().submitTask({ limit_key });
      expect((await shared().find(id)).limit_key).to.equal(limit_key);
    }
  });

  it('is refused if it is anything else', async () => {
    const error = 'limit_key must be a text of 1 to 255 characters';
    for (const limit_key of ['', 'x'.repeat(256), 5, null, ['a'], '\ud800']) {
      const answer = await shared().submit(JSON.stringify({ action: 'sum', limit_key }));
      expect(answer, JSON.stringify(limit_key)).to.deep.include({ status: 400, body: { error } });
    }
  });
});
