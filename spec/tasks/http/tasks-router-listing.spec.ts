import { renameSync } from 'node:fs';
import { expect } from 'chai';
import type { TaskRow } from '../../../db/task-rows.ts';
import { ByteBudget } from '../../../main/http/request-body.ts';
import { request } from '../../support/program.ts';
import { startTasksServer, type TasksServer } from './tasks-server.ts';

const idOf = (number: number) => `00000000-0000-4000-8000-${String(number).padStart(12, '0')}`;

/** Returns a completed task, created in second `number`. */
function completed(number: number, action = 'sum', text = '', output = '0'): TaskRow {
  const id = idOf(number);
  const payload = JSON.stringify({ id, action, data: { text }, created_at: number });
  return { id, payload, status: 'completed', result: `{"output":${output}}`, created_at: number, processed_at: number };
}

/** Returns the listed ids, which must be as many as the count says. */
async function listed({ tasksUrl }: TasksServer, query = ''): Promise<string[]> {
  const { status, body } = await request(tasksUrl + query);
  expect([status, body.count], query).to.deep.equal([200, body.tasks.length]);
  return body.tasks.map(({ id }: { id: string }) => id);
}

const newestFirst = (from: number, to: number) =>
  Array.from({ length: from - to + 1 }, (_, index) => idOf(from - index));

describe('GET /tasks', () => {
  const INSERT = 'INSERT INTO tasks (id, payload, status, created_at) VALUES (?, ?, ?, 1)';

  it('answers with an empty list if no row is stored', async () => {
    const { tasksUrl } = await startTasksServer();
    expect(await request(tasksUrl)).to.deep.include({ status: 200, body: { tasks: [], count: 0 } });
    const { body, headers } = await request(`${tasksUrl}?status=failed`);
    expect([body.count, headers.get('link')]).to.deep.equal([0, '</dead-letters>; rel="related"']);
  });

  it('answers with every field of each row, payload and result as the stored text', async () => {
    const { tasksUrl, storeRow, runSql } = await startTasksServer({ realRows: false });
    const row = { ...completed(5), payload: '{"id":"a", "data":{}}', result: '{"output":"ü"}' };
    storeRow(row);
    runSql(INSERT, 'b', '{}', 'pending');
    const pending = { id: 'b', payload: '{}', status: 'pending', result: null, created_at: 1, processed_at: null };
    expect((await request(tasksUrl)).body).to.deep.equal({ tasks: [row, pending], count: 2 });
    const [summary] = (await request(`${tasksUrl}?summary=1&status=pending`)).body.tasks;
    expect(summary).to.deep.equal({ ...pending, action: null, payload_bytes: 2, result_bytes: null, ran_ms: null });
  });

  it('answers with the newest 100 rows, then with those before a task, page by page', async () => {
    const server = await startTasksServer();
    for (let number = 0; number < 150; number++) server.storeRow(completed(number));
    for (const query of ['', '?', '?summary=0'])
      expect(await listed(server, query), query).to.deep.equal(newestFirst(149, 50));
    for (const summary of [0, 1]) {
      const rest = await listed(server, `?before=${idOf(50)}&summary=${summary}`);
      expect(rest).to.deep.equal(newestFirst(49, 0));
    }
  });

  it('answers with the rows of exactly this status and this action', async () => {
    const server = await startTasksServer({ realRows: false });
    for (const [number, action] of ['sum', 'a b&ü'].entries()) server.storeRow(completed(number, action));
    for (const [id, status] of Object.entries({ b: '', c: 'a b&ü' })) server.runSql(INSERT, id, '{}', status);
    for (const [query, ids] of Object.entries({
      ...{
        'action=sum': [idOf(0)],
        'action=a+b%26%C3%BC&status=completed': [idOf(1)],
        'action=sum&status=pending': [],
      },
      ...{ 'status=': ['b'], 'status=a%20b%26ü': ['c'], 'status=COMPLETED': [], [`action=sum&before=${idOf(0)}`]: [] },
    }))
      expect(await listed(server, `?${query}`), query).to.deep.equal(ids);
  });

  it('answers with the summaries of 100 large rows although they exceed the budget of responses', async () => {
    const server = await startTasksServer({ responses: new ByteBudget(1_000_000) });
    for (let number = 0; number < 100; number++) server.storeRow(completed(number, 'sum', 'x'.repeat(100_000)));
    expect(await listed(server, '?summary=1')).to.deep.equal(newestFirst(99, 0));
  });

  it('answers 500 while the database file is away or has no table, and logs why, but shows a waiting task', async () => {
    const { tasksUrl, storeRow, runSql, file, lines, submitTask, find } = await startTasksServer();
    storeRow(completed(5));
    const waiting = await submitTask();
    const paths = ['', '?status=completed', `/${idOf(1)}`];
    const expectError = async (error: string, reason: string) => {
      for (const path of paths)
        expect(await request(tasksUrl + path)).to.deep.include({ status: 500, body: { error } });
      for (const line of lines) expect(line).to.include({ level: 50, msg: error, method: 'GET' });
      expect(lines).to.have.length(paths.length);
      expect(JSON.stringify(lines.splice(0))).to.include(reason);
    };
    renameSync(file, `${file}.away`);
    await expectError('database unavailable', 'tasks.db');
    expect(await find(waiting)).to.include({ id: waiting, status: 'queued' });
    renameSync(`${file}.away`, file);
    expect((await request(tasksUrl)).body.count).to.equal(1);
    runSql('DROP TABLE tasks');
    await expectError('query failed', 'no such table: tasks');
  });
});
