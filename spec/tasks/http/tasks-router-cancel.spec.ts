import { expect } from 'chai';
import { systemClock } from '../../../workers/shared/clock.ts';
import { discard } from '../../store/settlements.ts';
import { startTasksServer, type TasksServer } from './tasks-server.ts';

const cancel = ({ ask }: TasksServer, selection: object) => ask('POST /tasks/cancel', selection);
const cancelled = (count: number, remaining = 0) => [200, { count, remaining }];

describe('POST /tasks/cancel', () => {
  it('cancels the tasks with these ids, each once, or by action, state and limit key, all of which must match', async () => {
    const server = await startTasksServer();
    const ids: string[] = [];
    for (const [action, delay, limit_key] of [
      ['sum'],
      ['sum', 60],
      ['a', undefined, 'x'],
      ['a', 60, 'x'],
      ['a', 60],
      ['b', 60, 'x'],
    ])
      ids.push(await server.submitTask({ action, delay, limit_key }));
    const selected = [ids[0], ids[1], ids[0], ...Array(997).fill('unknown')];
    for (const [selection, count] of [
      [{ ids: selected }, 2],
      [{ ids: selected }, 0],
      [{ action: 'a', state: 'scheduled', limit_key: 'x' }, 1],
      [{ state: 'limited' }, 0],
      [{ limit_key: 'x' }, 2],
      [{ action: 'a' }, 1],
    ] as const)
      expect(await cancel(server, selection)).to.deep.equal(cancelled(count));
    expect(await server.queue.counts()).to.include({ accepted: 6, cancelled: 6 });
  });

  it('cancels neither dead letters nor tasks that are accepted meanwhile', async () => {
    const server = await startTasksServer();
    const failed = await server.submitTask();
    await server.settle(await server.take(), discard());
    const early = await server.submitTask();
    const { store } = server.queue;
    const search = store.reads.search.bind(store);
    const later: string[] = [];
    store.reads.search = async (...values) => {
      const page = await search(...values);
      later.push(await server.submitTask());
      return page;
    };
    expect(await cancel(server, { action: 'sum' })).to.deep.equal(cancelled(1));
    expect(await server.find(early)).to.deep.equal({ error: 'task not found' });
    expect(await server.find(failed)).to.include({ status: 'failed' });
    for (const id of later) expect(await server.find(id)).to.include({ status: 'queued' });
  });

  it('cancels more than a slice, and says how many remain, and logs why, if storing fails on the way', async () => {
    const server = await startTasksServer();
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
    expect(await cancel(server, { state: 'scheduled' })).to.deep.equal(cancelled(1100, 100));
    const [line] = server.lines;
    expect(line).to.deep.include({ msg: 'a bulk cancellation stopped on the way', count: 1100, remaining: 100 });
    expect(line).to.have.nested.property('err.message', 'the disk is full');
    expect(await cancel(server, { all: true })).to.deep.equal([500, { error: 'queue unavailable' }]);
    store.cancel = cancelOne;
    expect(await cancel(server, { all: true })).to.deep.equal(cancelled(100));
  });
});
