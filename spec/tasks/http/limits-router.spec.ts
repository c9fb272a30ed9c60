import { expect } from 'chai';
import { startTasksServer, type TasksServer } from './tasks-server.ts';

const list = async ({ ask }: TasksServer) => (await ask('GET /limits'))[1].limits;

describe('limits', () => {
  it('are set, listed with their use, replaced and removed', async () => {
    const server = await startTasksServer();
    const { ask } = server;
    const limits = { concurrency: 20, rate: { count: 5, seconds: 1.5 }, per_key: { concurrency: 3 } };
    const sum = { action: 'sum', source: 'api' };
    expect(await ask('PUT /limits/sum', limits)).to.deep.equal([200, { ...sum, ...limits }]);
    await ask('PUT /limits/a%2Fb', { rate: { count: 1, seconds: 60 } });
    await server.submitTask();
    await server.take();
    expect(await list(server)).to.deep.equal([
      { action: 'a/b', rate: { count: 1, seconds: 60 }, source: 'api', running: 0 },
      { ...sum, ...limits, running: 1 },
    ]);
    await ask('PUT /limits/sum', { concurrency: 1 });
    expect(await ask('DELETE /limits/a%2Fb')).to.deep.equal([204, '']);
    expect(await list(server)).to.deep.equal([{ ...sum, concurrency: 1, running: 1 }]);
  });

  it('of the handlers module or of callbacks cannot be removed, and apply again once limits of a request are removed', async () => {
    const limits = { concurrency: 2 };
    const server = await startTasksServer({ actions: { own: { limits } }, callbackHosts: ['example.com'] });
    await server.queue.setLimits('own', limits, 'module');
    const refused = [409, { error: 'limits belong to the handlers module' }];
    expect(await server.ask('DELETE /limits/own')).to.deep.equal(refused);
    await server.ask('PUT /limits/own', { concurrency: 1 });
    expect(await server.ask('DELETE /limits/own')).to.deep.equal([204, '']);
    expect(await server.ask('DELETE /limits/own')).to.deep.equal(refused);
    await server.ask('PUT /limits/callback', { concurrency: 1 });
    await server.ask('DELETE /limits/callback');
    const callbacks = { concurrency: 64, per_key: { concurrency: 8 } };
    expect(await list(server)).to.deep.equal([
      { action: 'callback', ...callbacks, source: 'module', running: 0 },
      { action: 'own', ...limits, source: 'module', running: 0 },
    ]);
  });

  it('show what a task waits for', async () => {
    const { ask, submitTask, takeAll, find } = await startTasksServer();
    await ask('PUT /limits/sum', { concurrency: 2, per_key: { concurrency: 1 } });
    const key = '"\\\n\u0000ü😀'.padEnd(255, 'x');
    const ids: string[] = [];
    for (const limit_key of [key, key, undefined, 'o']) ids.push(await submitTask({ limit_key }));
    await takeAll(2);
    const [[, { tasks, ...counts }], search, [, queue]] = await Promise.all([
      ask('GET /queue/tasks?state=limited'),
      ask('GET /tasks/search?state=limited'),
      ask('GET /queue'),
    ]);
    const byKey = { limited_by: 'key', limit: { action: 'sum', key, concurrency: 1, running: 1 } };
    const byAction = { limited_by: 'action', limit: { action: 'sum', concurrency: 2, running: 2 } };
    for (const [index, id, shown] of [
      [0, ids[1], { ...byKey, limit_key: key }],
      [1, ids[3], byAction],
    ] as const) {
      expect(tasks[index]).to.deep.include({ id, status: 'limited', ...shown });
      expect(await find(id ?? '')).to.deep.include({ status: 'limited', ...shown });
    }
    expect(counts).to.deep.equal({ count: 2, total: 2 });
    expect(search[1].tasks).to.deep.equal(tasks);
    expect(queue).to.include({ accepted: 4, waiting: 0, limited: 2, in_flight: 2 });
    expect(await find(ids[0] ?? '')).to.include({ limit_key: key });
  });

  it('show when a rate lets the next task start', async () => {
    const { ask, submitTask, take, store, find } = await startTasksServer();
    const rate = { count: 1, seconds: 3600 };
    await ask('PUT /limits/sum', { rate });
    const ids = [await submitTask(), await submitTask()];
    const startedAt = 1_000_000;
    await store.report([{ delivery: await take(), startedAt, progress: undefined }]);
    const { limit } = await find(ids[1] ?? '');
    expect(limit).to.deep.equal({ action: 'sum', rate, running: 1, next_start_at_ms: startedAt + 3_600_000 });
  });

  it('are refused for an action that submissions may not have, and for more than 1000 actions', async () => {
    const actions = { own: { schema: { type: 'object', required: ['n'] } } };
    const strict = await startTasksServer({ actions, rejectUnknown: true });
    const unknown = { error: 'unknown action', nearest: ['own'] };
    expect(await strict.ask('PUT /limits/owm', { concurrency: 1 })).to.deep.equal([400, unknown]);
    expect((await strict.ask('PUT /limits/own', { concurrency: 1 }))[0]).to.equal(200);
    const { ask, store } = await startTasksServer();
    const stored = Array.from({ length: 1000 }, (_, index) => `action ${index}`);
    const use = { running: 0, nextStartAt: undefined };
    store.limits = () => stored.map((action) => ({ action, limits: {}, source: 'api', use }));
    const full = { error: 'at most 1000 actions can have limits' };
    expect(await ask('PUT /limits/sum', { concurrency: 1 })).to.deep.equal([400, full]);
    expect((await ask('PUT /limits/action%207', { concurrency: 2 }))[0]).to.equal(200);
  });
});
