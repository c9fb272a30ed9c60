import { renameSync } from 'node:fs';
import { expect } from 'chai';
import type { TaskRow } from '../../../db/task-rows.ts';
import { ByteBudget } from '../../../main/http/request-body.ts';
import { request } from '../../support/program.ts';
import { startTasksServer, type TasksServer } from './tasks-server.ts';

const idOf = (number: number) => `00000000-0000-4000-8000-${String(number).padStart(12, '0')}`;

/** Returns a completed task, created in second `number`. */
function completed(number: number, action = 'sum', text = ''): TaskRow {
  const id = idOf(number);
  const payload = JSON.stringify({ id, action, data: { text }, created_at: number });
  return { id, payload, status: 'completed', result: '{"output":"ü"}', created_at: number, processed_at: number };
}

/** Returns the listed ids, which must be as many as the count says. */
async function listed({ tasksUrl }: TasksServer, query = ''): Promise<string[]> {
  const { status, body } = await request(tasksUrl + query);
  expect([status, body.count], query).to.deep.equal([200, body.tasks.length]);
  return body.tasks.map(({ id }: { id: string }) => id);
}

/** Returns numbers of rows, the newest first. */
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
      expect(await listed(server, query), query).to.deep.equal(downFrom(149, 50).map(idOf));
    for (const summary of [0, 1])
      expect(await listed(server, `?before=${idOf(50)}&summary=${summary}`)).to.deep.equal(downFrom(49, 0).map(idOf));
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
      expect(await listed(server, `?${query}`), query).to.deep.equal(ids);
  });

  it('answers with the summaries of 100 large rows although they exceed the budget of responses', async () => {
    const server = await startTasksServer({ responses: new ByteBudget(1_000_000) });
    server.storeRow(...downFrom(99, 0).map((number) => completed(number, 'sum', 'x'.repeat(100_000))));
    expect(await listed(server, '?summary=1')).to.deep.equal(downFrom(99, 0).map(idOf));
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
