import { randomUUID } from 'node:crypto';
import { expect } from 'chai';
import { search as findTasks } from '../../../main/tasks/search.ts';
import { RESULT, startTasksServer, type TasksServer } from './tasks-server.ts';

const search = async (server: TasksServer, query: Record<string, string> = {}) =>
  (await server.ask(`GET /tasks/search?${new URLSearchParams(query)}`))[1];
const idsOf = ({ tasks }: { tasks: { id: string }[] }) => tasks.map(({ id }) => id);

/** Returns all pages of a search. `between` is called after the first one. */
async function pages(server: TasksServer, query: Record<string, string>, between = async () => {}) {
  const all = [await search(server, query)];
  await between();
  for (let cursor = all[0].next_cursor; cursor !== null; cursor = all.at(-1).next_cursor)
    all.push(await search(server, { ...query, cursor }));
  return all;
}

/** Publishes tasks in one transaction. Returns their ids. */
async function publish(server: TasksServer, count: number, action = 'sum'): Promise<string[]> {
  const ids = Array.from({ length: count }, () => randomUUID());
  const messages = ids.map((id) => ({ id, action, body: JSON.stringify({ id, action, data: {}, created_at: 1 }) }));
  await server.queue.publishAll(messages.map((message) => ({ message, key: undefined })));
  return ids;
}

describe('GET /tasks/search', () => {
  it('answers with tasks in all states as the lists show them, the last accepted first', async () => {
    const server = await startTasksServer();
    const nothing = { tasks: [], count: 0, total: 0, total_is_exact: true, next_cursor: null };
    expect(await search(server)).to.deep.equal(nothing);
    const data = { order: 'SKU-20468' };
    const [completed, failed] = [await server.submitTask({ data }), await server.submitTask({ data })];
    const [first, second] = await server.takeAll(2);
    await server.complete(first as never);
    await server.settle(second as never, { kind: 'discard', reason: 'no SKU', failure: 'permanent' });
    const queued = await server.submitTask({ data, action: 'mail', limit_key: 'acme' });
    const scheduled = await server.submitTask({ data, delay: 100 });
    const all = await search(server, { text: 'sku-20468' });
    expect(idsOf(all)).to.deep.equal([scheduled, queued, failed, completed]);
    expect(all).to.include({ count: 4, total: 4, total_is_exact: true, next_cursor: null });
    const unfinished = ['scheduled', 'queued'].map((state) => `/queue/tasks?state=${state}`);
    const lists = [...unfinished, '/dead-letters?summary=1', '/tasks?summary=1'];
    const bodies = await Promise.all(lists.map((path) => server.ask(`GET ${path}`)));
    expect(all.tasks).to.deep.equal(bodies.flatMap(([, { tasks, dead_letters }]) => tasks ?? dead_letters));
    for (const [query, ids] of [
      [{ state: 'unfinished' }, [scheduled, queued]],
      [{ state: 'completed' }, [completed]],
      [{ state: 'failed', text: 'no sku' }, [failed]],
      [{ reason: 'no SKU' }, [failed]],
      [{ cause: 'no SKU' }, [failed]],
      [{ action: 'mail', limit_key: 'acme' }, [queued]],
      [{ id: (completed as string).slice(0, 14).toUpperCase() }, [completed]],
      [{ schedule: 'nightly' }, []],
      [{ since: '9999999999' }, []],
      [{ until: '9999999999.1234567', limit: '1' }, [scheduled]],
    ] as [Record<string, string>, string[]][])
      expect(idsOf(await search(server, query)), JSON.stringify(query)).to.deep.equal(ids);
  });

  it('has pages, and counts all that match in the first one', async () => {
    const server = await startTasksServer();
    const row = { payload: '{}', status: 'completed', result: RESULT, created_at: 1, processed_at: 1 };
    const rows = Array.from({ length: 5 }, () => ({ id: randomUUID(), ...row }));
    server.storeRow(...rows);
    const ids = [...(await publish(server, 30)).reverse(), ...rows.map(({ id }) => id).reverse()];
    for (const limit of [7, 35, 34]) {
      const [first, ...others] = await pages(server, { limit: `${limit}` });
      expect(first).to.include({ count: limit, total: 35, total_is_exact: true });
      for (const page of others) expect(page).to.not.have.any.keys('total', 'total_is_exact');
      expect([first, ...others].flatMap(idsOf)).to.deep.equal(ids);
      const uncounted = await search(server, { limit: `${limit}`, total: '0' });
      expect(uncounted).to.not.have.any.keys('total', 'total_is_exact');
      expect(idsOf(uncounted)).to.deep.equal(ids.slice(0, limit));
    }
    const id = (ids[0] as string).slice(0, 1);
    const byId = (await pages(server, { id, limit: '1' })).flatMap(idsOf);
    expect(byId).to.deep.equal(ids.filter((each) => each.startsWith(id)).sort());
  });

  it('has a task that is completed between two pages in one of them, seldom in both', async () => {
    for (const older of [0, 3]) {
      const server = await startTasksServer();
      const ids = await publish(server, older + 4);
      for (const delivery of await server.takeAll(older)) await server.complete(delivery);
      const found = await pages(server, { limit: '1' }, async () => {
        for (const delivery of await server.takeAll(4)) await server.complete(delivery);
      });
      expect([...new Set(found.flatMap(idsOf))]).to.deep.equal(ids.reverse());
      // The last one comes again, because it was accepted later than its body says.
      expect(found.length).to.equal(ids.length + 1);
    }
  });

  it('has a task once that is completed during the search', async () => {
    const server = await startTasksServer();
    await publish(server, 1);
    let turns = 0;
    const turn = async () => {
      turns += 1;
      // Between the tables.
      if (turns === 2) await server.complete(await server.take());
    };
    const page = { cursor: undefined, limit: 10, isCounted: true };
    const { found, count } = await findTasks(server.queue.store.reads, {}, page, turn);
    expect([found.length, count]).to.deep.equal([1, 1]);
  });

  it('counts up to 10,000, and reads up to twenty slices a request', async () => {
    const server = await startTasksServer();
    await publish(server, 10_000);
    expect(await search(server, { limit: '0' })).to.include({ total: 10_000, total_is_exact: true });
    await publish(server, 1, 'rare');
    expect(await search(server, { limit: '0' })).to.include({ total: 10_000, total_is_exact: false });
    const { reads } = server.queue.store;
    const { search: searchSlice } = reads;
    let slices = 0;
    // As if twenty slices of other tasks had been accepted later.
    reads.search = (...values) => {
      slices += 1;
      return slices > 20 ? searchSlice.apply(reads, values) : { found: [], next: [Number.MAX_SAFE_INTEGER - slices] };
    };
    const first = await search(server, { action: 'rare' });
    expect(first).to.include({ count: 0, total: 0, total_is_exact: false });
    const next = await search(server, { action: 'rare', cursor: first.next_cursor });
    expect(next).to.include({ count: 1, next_cursor: null });
  });
});
