import { randomUUID } from 'node:crypto';
import { expect } from 'chai';
import type { TaskView } from '../../../db/task-rows.ts';
import { request } from '../../support/program.ts';
import { RESULT, startTasksServer, type TasksServer } from './tasks-server.ts';

const search = async (server: TasksServer, query: Record<string, string> = {}) =>
  (await request(`${server.tasksUrl}/search?${new URLSearchParams(query)}`)).body;
const idsOf = ({ tasks }: { tasks: { id: string }[] }) => tasks.map(({ id }) => id);

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
    expect(await search(server)).to.deep.equal({
      ...{ tasks: [], count: 0, total: 0, total_is_exact: true, next_cursor: null },
    });
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
    const bodies = await Promise.all([
      request(`${server.url}/queue/tasks?state=scheduled`).then(({ body }) => body.tasks),
      request(`${server.url}/queue/tasks?state=queued`).then(({ body }) => body.tasks),
      request(`${server.url}/dead-letters?summary=1`).then(({ body }) => body.dead_letters),
      request(`${server.tasksUrl}?summary=1`).then(({ body }) => body.tasks),
    ]);
    expect(all.tasks).to.deep.equal(bodies.flat());
    const found = async (query: Record<string, string>) => idsOf(await search(server, query));
    expect(await found({ state: 'unfinished' })).to.deep.equal([scheduled, queued]);
    expect(await found({ state: 'completed' })).to.deep.equal([completed]);
    expect(await found({ state: 'failed', text: 'no sku' })).to.deep.equal([failed]);
    expect(await found({ reason: 'no SKU' })).to.deep.equal([failed]);
    expect(await found({ cause: 'no SKU' })).to.deep.equal([failed]);
    expect(await found({ action: 'mail', limit_key: 'acme' })).to.deep.equal([queued]);
    expect(await found({ id: (completed as string).slice(0, 14).toUpperCase() })).to.deep.equal([completed]);
    expect(await found({ schedule: 'nightly' })).to.deep.equal([]);
    expect(await found({ since: '9999999999' })).to.deep.equal([]);
    expect(await found({ until: '9999999999.5', limit: '1' })).to.deep.equal([scheduled]);
  });

  it('has pages, and counts all that match in the first one', async () => {
    const server = await startTasksServer({ maxLength: 10_000, maxBytes: 10_000_000 });
    const ids = (await publish(server, 30)).reverse();
    for (let stored = 0; stored < 5; stored++) {
      const row = {
        id: randomUUID(),
        payload: '{}',
        status: 'completed',
        result: RESULT,
        created_at: 1,
        processed_at: 1,
      };
      await server.storeRow(row);
      ids.push(row.id);
    }
    ids.splice(30, 5, ...ids.slice(30).reverse());
    for (const limit of [7, 35, 34]) {
      const found: string[] = [];
      let page = await search(server, { limit: `${limit}` });
      expect(page).to.include({ count: limit, total: 35, total_is_exact: true });
      for (found.push(...idsOf(page)); page.next_cursor !== null; found.push(...idsOf(page))) {
        page = await search(server, { limit: `${limit}`, cursor: page.next_cursor });
        expect(page).to.not.have.any.keys('total', 'total_is_exact');
      }
      expect(found).to.deep.equal(ids);
    }
    const [id] = ids as [string];
    const byId = await search(server, { id: id.slice(0, 1), limit: '1' });
    const rest = await search(server, { id: id.slice(0, 1), ...(byId.next_cursor && { cursor: byId.next_cursor }) });
    const same = ids.filter((each) => each[0] === id[0]).sort();
    expect([...new Set([...idsOf(byId), ...idsOf(rest)])]).to.deep.equal(same);
  });

  it('counts up to 10,000, and reads up to 100,000 a request', async () => {
    const server = await startTasksServer({ maxLength: 200_000, maxBytes: 100_000_000 });
    await publish(server, 10_000);
    expect(await search(server, { limit: '0' })).to.include({ total: 10_000, total_is_exact: true });
    await publish(server, 1, 'rare');
    expect(await search(server, { limit: '0' })).to.include({ total: 10_000, total_is_exact: false });
    await publish(server, 100_000);
    const first = await search(server, { action: 'rare' });
    expect(first).to.include({ count: 0, total: 0, total_is_exact: false });
    expect(await search(server, { action: 'rare', cursor: first.next_cursor })).to.include({
      count: 1,
      next_cursor: null,
    });
  });

  it('finds only what the token may see', async () => {
    let view: TaskView = { submitter: 'alice' };
    const actor = { userId: 'alice', role: 'submitter', access: () => view, isSignedIn: () => true };
    const server = await startTasksServer({
      access: {
        requireToken: (ctx, next) => {
          ctx.state.actor = actor;
          return next();
        },
        tokenRoutes: (_, next) => next(),
        issue: async () => '',
      },
    });
    const [own] = [await server.submitTask({ limit_key: 'acme' }), await publish(server, 1)];
    expect(idsOf(await search(server))).to.deep.equal([own]);
    view = { limit_key: 'acme' };
    expect(idsOf(await search(server, { action: 'sum' }))).to.deep.equal([own]);
    view = { id: own };
    expect(await search(server, { limit: '0' })).to.include({ total: 1 });
    view = { limit_key: 'other' };
    expect(await search(server, { limit: '0' })).to.include({ total: 0 });
  });

  const wrong: [query: Record<string, string>, parameter: string][] = [
    [{ state: 'waiting' }, 'state'],
    [{ text: '' }, 'text'],
    [{ id: 'xyz' }, 'id'],
    [{ since: 'now' }, 'since'],
    [{ until: '-1' }, 'until'],
    [{ limit: '101' }, 'limit'],
    [{ cursor: 'x' }, 'cursor'],
    [{ cursor: Buffer.from('[[1,2],null]').toString('base64url') }, 'cursor'],
    [{ cursor: Buffer.from('[["x"],[]]').toString('base64url') }, 'cursor'],
    [{ actoin: 'x' }, 'actoin'],
  ];
  for (const [query, parameter] of wrong) {
    it(`refuses ${JSON.stringify(query)}`, async () => {
      const server = await startTasksServer();
      expect(await search(server, query)).to.include({ error: 'invalid query', parameter });
    });
  }
});
