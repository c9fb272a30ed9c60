import { renameSync } from 'node:fs';
import { expect } from 'chai';
import type { TaskRow } from '../../../db/task-rows.ts';
import { request } from '../../support/program.ts';
import { startTasksServer } from './tasks-server.ts';

function completed(id: string, created_at: number): TaskRow {
  const payload = `{"id":"${id}", "data":{}}`;
  return { id, payload, status: 'completed', result: '{"output":"ü"}', created_at, processed_at: created_at + 1 };
}

const idsOf = (body: { tasks: { id: string }[] }) => body.tasks.map(({ id }) => id);

describe('GET /tasks', () => {
  it('answers with an empty list where nothing is stored', async () => {
    const { tasksUrl } = await startTasksServer();
    const { status, body, headers } = await request(tasksUrl);
    expect({ status, body }).to.deep.equal({ status: 200, body: { tasks: [], count: 0 } });
    expect(headers.get('content-type')).to.equal('application/json; charset=utf-8');
  });

  it('answers with every field of each row, payload and result as the stored text', async () => {
    const { tasksUrl, storeRow, runSql } = await startTasksServer({ realRows: false });
    storeRow(completed('a', 5));
    runSql("INSERT INTO tasks (id, payload, created_at) VALUES ('b', '{}', 4)");
    const { body } = await request(tasksUrl);
    expect(body).to.deep.equal({
      tasks: [
        completed('a', 5),
        { id: 'b', payload: '{}', status: 'pending', result: null, created_at: 4, processed_at: null },
      ],
      count: 2,
    });
  });

  it('answers with the newest 100, and counts what it returns', async () => {
    const { tasksUrl, storeRow } = await startTasksServer({ realRows: false });
    for (let time = 0; time < 120; time++) storeRow(completed(`t${time}`, time));
    const { body } = await request(tasksUrl);
    expect(body.count).to.equal(100);
    expect(idsOf(body)).to.deep.equal(Array.from({ length: 100 }, (_, index) => `t${119 - index}`));
  });

  it('answers with the rows of a status, to the letter', async () => {
    const { tasksUrl, storeRow, runSql } = await startTasksServer({ realRows: false });
    const insert = 'INSERT INTO tasks (id, payload, status, created_at) VALUES (?, ?, ?, 1)';
    storeRow(completed('a', 5));
    for (const [id, status] of [
      ['b', 'pending'],
      ['c', ''],
      ['d', 'a b&ü'],
    ] as const) {
      runSql(insert, id, '{}', status);
    }
    const expected = { completed: 'a', pending: 'b', '': 'c', 'a%20b%26%C3%BC': 'd', 'a+b%26ü': 'd', failed: '' };
    for (const [status, ids] of Object.entries({ ...expected, COMPLETED: '', '%25': '', "'+OR+1=1--": '' })) {
      const { body } = await request(`${tasksUrl}?status=${status}`);
      expect(idsOf(body), status).to.deep.equal([...ids]);
      expect(body.count, status).to.equal(ids.length);
    }
  });

  it('ignores parameters that it does not know', async () => {
    const { tasksUrl, storeRow } = await startTasksServer({ realRows: false });
    storeRow(completed('a', 5));
    for (const query of ['?', '?limit=0', '?Status=x', '?status%00=x', '?__proto__=x&constructor=y']) {
      expect((await request(tasksUrl + query)).body.count, query).to.equal(1);
    }
  });

  it('refuses a status that is given twice', async () => {
    const { tasksUrl } = await startTasksServer();
    for (const query of ['status=a&status=b', 'status=a&status=a', 'status&status']) {
      expect(await request(`${tasksUrl}?${query}`), query).to.deep.include({
        status: 400,
        body: { error: 'status must be given once' },
      });
    }
  });

  it('refuses an action that is longer than those that it can find', async () => {
    const { tasksUrl } = await startTasksServer();
    const ask = (action: string) => request(`${tasksUrl}?action=${encodeURIComponent(action)}`);
    for (const action of [`"${'x'.repeat(254)}`, '\u{1f600}'.repeat(256)])
      expect(await ask(action)).to.have.property('status', 200);
    for (const action of ['x'.repeat(257), '"'.repeat(129)])
      expect(await ask(action)).to.deep.include({
        status: 400,
        body: { error: 'action must have at most 256 characters, escaped as JSON' },
      });
  });

  it('answers HEAD as GET without the body', async () => {
    const { tasksUrl, storeRow } = await startTasksServer({ realRows: false });
    storeRow(completed('a', 5));
    const get = await request(tasksUrl);
    const head = await request(tasksUrl, { method: 'HEAD' });
    expect({ status: head.status, body: head.body }).to.deep.equal({ status: 200, body: '' });
    for (const name of ['content-type', 'content-length']) {
      expect(head.headers.get(name), name).to.equal(get.headers.get(name)).and.to.be.a('string');
    }
  });

  it('answers 500 while the database file is away, and works when it is back', async () => {
    const { tasksUrl, storeRow, file, lines } = await startTasksServer({ realRows: false });
    storeRow(completed('a', 5));
    renameSync(file, `${file}.away`);
    for (const query of ['', '?status=completed']) {
      expect(await request(tasksUrl + query)).to.deep.include({ status: 500, body: { error: 'database unavailable' } });
    }
    expect(lines.map(({ level, msg }) => [level, msg])).to.deep.equal(Array(2).fill([50, 'database unavailable']));
    renameSync(`${file}.away`, file);
    expect((await request(tasksUrl)).body.count).to.equal(1);
  });

  it('answers 500 when the table is dropped, and says why in the log only', async () => {
    const { tasksUrl, runSql, lines } = await startTasksServer({ realRows: false });
    await request(tasksUrl);
    runSql('DROP TABLE tasks');
    for (const query of ['', '?status=completed']) {
      expect(await request(tasksUrl + query)).to.deep.include({ status: 500, body: { error: 'query failed' } });
    }
    expect(lines).to.have.length(2);
    expect(lines[0]).to.include({ level: 50, msg: 'query failed', method: 'GET', path: '/tasks' });
    expect(JSON.stringify(lines[0])).to.include('no such table: tasks');
  });
});
