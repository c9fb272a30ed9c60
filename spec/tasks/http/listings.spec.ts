import { randomUUID } from 'node:crypto';
import { renameSync } from 'node:fs';
import { mock } from 'node:test';
import { expect } from 'chai';
import type { TaskRow } from '../../../db/task-rows.ts';
import { ByteBudget } from '../../../main/http/request-body.ts';
import { TurnLimit } from '../../../main/http/turn-limit.ts';
import { slicesOf } from '../../../main/tasks/http/listing.ts';
import { search as findTasks } from '../../../main/tasks/search.ts';
import { request } from '../../support/program.ts';
import { idOf, startTasksServer, type TasksServer } from './tasks-server.ts';

function completed(number: number, action = 'sum', text = ''): TaskRow {
  const id = idOf(number);
  const payload = JSON.stringify({ id, action, data: { text }, created_at: number });
  return { id, payload, status: 'completed', result: '{"output":"ü"}', created_at: number, processed_at: number };
}

const idsOf = ({ tasks }: { tasks: { id: string }[] }) => tasks.map(({ id }) => id);

const downFrom = (from: number, to: number) => Array.from({ length: from - to + 1 }, (_, index) => from - index);

describe('GET /tasks', () => {
  it('answers with every field of each row, payload and result as the stored text', async () => {
    const { tasksUrl, storeRow } = await startTasksServer({ realRows: false });
    expect((await request(tasksUrl)).body).to.deep.equal({ tasks: [], count: 0 });
    const row = { ...completed(5), payload: '{"id":"a", "data":{}}' };
    const pending = { id: 'b', payload: '{}', status: 'pending', result: null, created_at: 1, processed_at: null };
    storeRow(row, pending);
    expect((await request(tasksUrl)).body).to.deep.equal({ tasks: [row, pending], count: 2 });
    const [summary] = (await request(`${tasksUrl}?summary=1&status=pending`)).body.tasks;
    expect(summary).to.deep.equal({ ...pending, action: null, payload_bytes: 2, result_bytes: null, ran_ms: null });
    const failed = await request(`${tasksUrl}?status=failed`);
    expect([failed.body.count, failed.headers.get('link')]).to.deep.equal([0, '</dead-letters>; rel="related"']);
  });

  it('answers with the newest 100 rows, then with those before a task, page by page', async () => {
    const server = await startTasksServer();
    server.storeRow(...downFrom(149, 0).map((number) => completed(number)));
    for (const query of ['', '?', '?summary=0'])
      expect(await server.listed(`/tasks${query}`), query).to.deep.equal(downFrom(149, 50).map(idOf));
    for (const query of ['summary=0', 'summary=1'])
      expect(await server.listed(`/tasks?before=${idOf(50)}&${query}`)).to.deep.equal(downFrom(49, 0).map(idOf));
    const { read } = server.store.reads.rows;
    // As if the newest row had been deleted since it was found.
    mock.method(server.store.reads.rows, 'read', ((ids, part) => read(ids.slice(1), part)) as typeof read);
    expect(await server.listed('/tasks')).to.deep.equal(downFrom(148, 50).map(idOf));
  });

  it('answers with the rows of exactly this status and this action', async () => {
    const server = await startTasksServer({ realRows: false });
    const statuses = Object.entries({ b: '', c: 'a b&ü' }).map(([id, status]) => ({ ...completed(0, ''), id, status }));
    server.storeRow(completed(0), completed(1, 'a b&ü'), ...statuses);
    for (const [query, ids] of Object.entries({
      'action=sum': [idOf(0)],
      'action=a+b%26%C3%BC&status=completed': [idOf(1)],
      'action=sum&status=pending': [],
      'status=': ['b'],
      'status=a%20b%26ü': ['c'],
      'status=COMPLETED': [],
      [`action=sum&before=${idOf(0)}`]: [],
    }))
      expect(await server.listed(`/tasks?${query}`), query).to.deep.equal(ids);
  });

  it('answers with the summaries of 100 large rows although each row exceeds the budget of responses, and waits for a turn of its own and one for each row', async () => {
    const server = await startTasksServer({ responses: new ByteBudget(100_000) });
    server.storeRow(...downFrom(99, 0).map((number) => completed(number, 'sum', 'x'.repeat(100_000))));
    const { rows } = server.store.reads;
    const { read } = rows;
    const turns = mock.method(TurnLimit.prototype, 'enter').mock;
    // As if the newest row had been deleted since it was found.
    mock.method(rows, 'read', ((ids, part) => (ids[0] === idOf(99) ? [] : read(ids, part))) as typeof read);
    expect(await server.listed('/tasks?summary=1')).to.deep.equal(downFrom(98, 0).map(idOf));
    const costs = turns.calls.map(({ arguments: [cost = 0] }) => Math.floor(cost / 100_000));
    expect(costs).to.deep.equal([2, ...Array(100).fill(1)]);
  });

  it('answers 500 while the database file is away or has no table, and logs why, but shows a waiting task', async () => {
    const { tasksUrl, storeRow, database, file, lines, submitTask, find } = await startTasksServer();
    storeRow(completed(5));
    const waiting = await submitTask();
    const expectError = async (error: string, reason: string) => {
      for (const path of ['', '?status=completed', `/${idOf(1)}`]) {
        expect(await request(tasksUrl + path)).to.deep.include({ status: 500, body: { error } });
        const logged = lines.splice(0);
        expect(logged).to.have.length(1);
        expect(logged[0]).to.include({ level: 50, msg: error, method: 'GET' });
        expect(JSON.stringify(logged)).to.include(reason);
      }
    };
    renameSync(file, `${file}.away`);
    await expectError('database unavailable', 'tasks.db');
    expect(await find(waiting)).to.include({ id: waiting, status: 'queued' });
    renameSync(`${file}.away`, file);
    expect((await request(tasksUrl)).body.count).to.equal(1);
    database().exec('DROP TABLE tasks');
    await expectError('query failed', 'no such table: tasks');
  });
});

const search = async (server: TasksServer, query: Record<string, string> = {}) =>
  (await server.ask(`GET /tasks/search?${new URLSearchParams(query)}`))[1];

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
    const [failed, completed] = [await server.submitTask({ data }), await server.submitTask({ data })];
    const [first, second] = await server.takeAll(2);
    await server.settle(first as never, { kind: 'discard', reason: 'no SKU', failure: 'permanent' });
    await server.complete(second as never);
    const queued = await server.submitTask({ data, action: 'mail', limit_key: 'acme' });
    const scheduled = await server.submitTask({ data, delay: 100 });
    const all = await search(server, { text: 'sku-20468' });
    expect(idsOf(all)).to.deep.equal([scheduled, queued, completed, failed]);
    expect(all).to.include({ count: 4, total: 4, total_is_exact: true, next_cursor: null });
    const unfinished = ['scheduled', 'queued'].map((state) => `/queue/tasks?state=${state}`);
    const lists = [...unfinished, '/tasks?summary=1', '/dead-letters?summary=1'];
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
      [{ id: failed }, [failed]],
      [{ schedule: 'nightly' }, []],
      [{ action: 'x'.repeat(256) }, []],
      [{ since: '99999999999', text: 'x'.repeat(256) }, []],
      [{ until: '9999999999.1234567', limit: '1' }, [scheduled]],
      [{ since: `${(all.tasks[0].accepted_at_ms / 1000).toFixed(3)}4`, limit: '1' }, [scheduled]],
    ] as [Record<string, string>, string[]][])
      expect(idsOf(await search(server, query)), JSON.stringify(query)).to.deep.equal(ids);
  });

  it('reads at most 256 KiB in one turn, or one task', () => {
    const located = [200, 56, 1, 300, 1].map((kib, index) => ({ id: `${index}`, bytes: kib * 1024 }));
    expect([...slicesOf(located)].map(({ ids }) => ids.join(''))).to.deep.equal(['01', '2', '3', '4']);
  });

  it('has pages, and counts all that match in the first one', async () => {
    const server = await startTasksServer();
    server.storeRow(...downFrom(4, 0).map((number) => completed(number)));
    const ids = [...(await publish(server, 30)).reverse(), ...downFrom(4, 0).map(idOf)];
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
      const all = await pages(server, { limit: '1' }, async () => {
        for (const delivery of await server.takeAll(4)) await server.complete(delivery);
      });
      const found = all.flatMap(idsOf);
      expect([...new Set(found)]).to.deep.equal(ids.reverse());
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
    // As if later slices had one match each, gone since. One slice of the twenty has the rows.
    reads.search = (...values) => {
      slices += 1;
      const next = [Number.MAX_SAFE_INTEGER - slices];
      const found = [{ id: `${slices}`, bytes: 1, arrival: 1, position: next }];
      return slices > 20 ? searchSlice.apply(reads, values) : { found, next };
    };
    const first = await search(server, { action: 'rare' });
    expect(first).to.include({ count: 0, total: 19, total_is_exact: false });
    const next = await search(server, { action: 'rare', cursor: first.next_cursor });
    expect(next).to.include({ count: 1, next_cursor: null });
  });
});
