import { expect } from 'chai';
import type { SearchFilter } from '../../../db/task-rows.ts';
import { systemClock } from '../../../workers/shared/clock.ts';
import { request } from '../../support/program.ts';
import { startTasksServer, type TasksServer } from './tasks-server.ts';

const cancel = async ({ tasksUrl }: TasksServer, selection: unknown) => {
  const { status, body } = await request(`${tasksUrl}/cancel`, { method: 'POST', body: JSON.stringify(selection) });
  return [status, body];
};

describe('POST /tasks/cancel', () => {
  it('cancels the tasks with these ids, each once', async () => {
    const server = await startTasksServer();
    const ids = [await server.submitTask(), await server.submitTask({ delay: 60 }), await server.submitTask()];
    const selected = [ids[0], ids[1], ids[0], 'unknown'];
    expect(await cancel(server, { ids: selected })).to.deep.equal([200, { count: 2, remaining: 0 }]);
    expect(await cancel(server, { ids: selected })).to.deep.equal([200, { count: 0, remaining: 0 }]);
    expect((await server.takeAll(1)).map(({ id }) => id)).to.deep.equal([ids[2]]);
    expect((await server.queue.counts()).cancelled).to.equal(2);
  });

  it('reads neither dead letters nor tasks that are accepted meanwhile', async () => {
    const server = await startTasksServer();
    const { store } = server.queue;
    const search = store.search.bind(store);
    const read: SearchFilter[] = [];
    store.search = (filter, ...others) => {
      read.push(filter);
      return search(filter, ...others);
    };
    await cancel(server, { action: 'uppercase' });
    expect(read).to.have.length(1);
    expect(read[0]).to.include({ state: 'unfinished' });
    expect(read[0]?.until).to.be.a('number');
  });

  it('cancels by action, state and limit key, all of which must match', async () => {
    const server = await startTasksServer();
    await server.submitTask({ action: 'a', limit_key: 'x' });
    await server.submitTask({ action: 'a', delay: 60, limit_key: 'x' });
    await server.submitTask({ action: 'a', delay: 60 });
    await server.submitTask({ action: 'b', delay: 60, limit_key: 'x' });
    const both = { action: 'a', state: 'scheduled', limit_key: 'x' };
    expect(await cancel(server, both)).to.deep.equal([200, { count: 1, remaining: 0 }]);
    expect(await cancel(server, { state: 'limited' })).to.deep.equal([200, { count: 0, remaining: 0 }]);
    expect(await cancel(server, { limit_key: 'x' })).to.deep.equal([200, { count: 2, remaining: 0 }]);
    expect(await cancel(server, { action: 'a' })).to.deep.equal([200, { count: 1, remaining: 0 }]);
  });

  it('cancels more than a slice, and says how many remain, and logs why, if storing fails on the way', async () => {
    const server = await startTasksServer({ maxLength: 5000, maxBytes: 10_000_000 });
    const { store } = server.queue;
    const runAt = systemClock.now() + 60_000;
    const ids = Array.from({ length: 1200 }, (_, index) => `task ${index}`);
    await Promise.all(ids.map((id) => server.queue.publish({ id, action: 'sum', body: '{}', runAt })));
    const { cancel: cancelOne } = store;
    let calls = 0;
    store.cancel = (id) => {
      calls += 1;
      return calls > 1100 ? Promise.reject(new Error('the disk is full')) : cancelOne.call(store, id);
    };
    expect(await cancel(server, { state: 'scheduled' })).to.deep.equal([200, { count: 1100, remaining: 100 }]);
    const [line] = server.lines;
    expect(line).to.deep.include({ msg: 'a bulk cancellation stopped on the way', count: 1100, remaining: 100 });
    expect(line).to.have.nested.property('err.message', 'the disk is full');
    expect(await cancel(server, { all: true })).to.deep.equal([500, { error: 'queue unavailable' }]);
    store.cancel = cancelOne;
    expect(await cancel(server, { all: true })).to.deep.equal([200, { count: 100, remaining: 0 }]);
  });

  it('refuses an action that is longer than the stored ones, of which none could match', async () => {
    const server = await startTasksServer();
    const error = 'action must have at most 256 characters, escaped as JSON';
    expect(await cancel(server, { action: 'x'.repeat(257) })).to.deep.equal([400, { error }]);
    expect(await cancel(server, { action: 'x'.repeat(256) })).to.deep.equal([200, { count: 0, remaining: 0 }]);
  });

  it('refuses any other selection, and cancels nothing', async () => {
    const server = await startTasksServer();
    await server.submitTask();
    const error = 'ids, all or a filter required';
    const tooMany = { ids: Array(1001).fill('x') };
    for (const selection of [
      ...[{}, [], { ids: [] }, { ids: [1] }, tooMany, { ids: ['a'], all: true }, { all: false }],
      ...[{ all: true, action: 'a' }, { action: 5 }, { state: 'completed' }, { cause: 'x' }],
      ...[{ limit_key: null }, { action: 'a', limitKey: 'x' }],
    ])
      expect(await cancel(server, selection), JSON.stringify(selection)).to.deep.equal([400, { error }]);
    const invalid = { error: 'invalid query', parameter: 'state', detail: 'is unknown' };
    expect(await cancel(server, { state: 'toString' })).to.deep.equal([400, invalid]);
    expect((await server.queue.counts()).cancelled).to.equal(0);
  });
});
