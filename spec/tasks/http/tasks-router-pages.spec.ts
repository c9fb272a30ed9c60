import { expect } from 'chai';
import type { TaskRow } from '../../../db/task-rows.ts';
import { ByteBudget } from '../../../main/http/byte-budget.ts';
import { request } from '../../support/program.ts';
import { startTasksServer } from './tasks-server.ts';

const idOf = (number: number) => `00000000-0000-4000-8000-${String(number).padStart(12, '0')}`;

/** Returns a completed task, created in second `number`. */
function completed(number: number, action = 'sum', text = '', output = '0'): TaskRow {
  const id = idOf(number);
  const payload = JSON.stringify({ id, action, data: { text }, created_at: number });
  return { id, payload, status: 'completed', result: `{"output":${output}}`, created_at: number, processed_at: number };
}

const idsOf = (body: { tasks: { id: string }[] }) => body.tasks.map(({ id }) => id);

describe('GET /tasks by page', () => {
  it('answers with the rows before a task, page by page', async () => {
    const { tasksUrl, storeRow } = await startTasksServer();
    for (let number = 0; number < 250; number++) storeRow(completed(number));
    const pages: number[] = [];
    const found: string[] = [];
    for (let query = '?'; ; query = `?before=${found.at(-1)}&`) {
      const { body } = await request(`${tasksUrl}${query}summary=${pages.length % 2}`);
      pages.push(body.count);
      found.push(...idsOf(body));
      if (body.count < 100) break;
    }
    expect(pages).to.deep.equal([100, 100, 50]);
    expect(found).to.deep.equal(Array.from({ length: 250 }, (_, index) => idOf(249 - index)));
  });

  it('answers with the rows of an action, to the letter', async () => {
    const { tasksUrl, storeRow } = await startTasksServer();
    const actions = ['sum', '', 'a b&ü', '%', '"', 'x'.repeat(256)];
    for (const [number, action] of actions.entries()) storeRow(completed(number, action));
    for (const [number, action] of actions.entries()) {
      const { body } = await request(`${tasksUrl}?action=${encodeURIComponent(action)}&status=completed`);
      expect(idsOf(body), action).to.deep.equal([idOf(number)]);
    }
    for (const query of ['action=Sum', 'action=sum&status=pending', `action=sum&before=${idOf(0)}`])
      expect((await request(`${tasksUrl}?${query}`)).body, query).to.deep.equal({ tasks: [], count: 0 });
  });

  it('refuses a parameter that is given twice, and a task before which there is nothing', async () => {
    const { tasksUrl } = await startTasksServer();
    for (const name of ['status', 'action', 'before', 'summary']) {
      const { status, body } = await request(`${tasksUrl}?${name}=a&${name}=a`);
      expect({ status, body }).to.deep.equal({ status: 400, body: { error: `${name} must be given once` } });
    }
    for (const id of ['', 'x', idOf(1)]) {
      const { status, body } = await request(`${tasksUrl}?before=${id}`);
      expect({ status, body }, id).to.deep.equal({ status: 400, body: { error: 'before is unknown' } });
    }
  });

  it('answers with summaries, cut to 256 characters, with the true sizes and the action', async () => {
    const { tasksUrl, storeRow } = await startTasksServer();
    const large = completed(2, 'ü'.repeat(300), 'x'.repeat(1000), `"${'y'.repeat(500)}"`);
    storeRow(completed(1));
    storeRow(large);
    const { payload, result, ...rest } = completed(1);
    const small = { ...rest, action: 'sum', payload, payload_bytes: payload.length, result, result_bytes: 12 };
    const { body } = await request(`${tasksUrl}?summary=1`);
    const cut = { payload: large.payload.slice(0, 256), result: large.result?.slice(0, 256) };
    const sizes = { payload_bytes: Buffer.byteLength(large.payload), result_bytes: large.result?.length };
    expect(body).to.deep.equal({ tasks: [{ ...large, ...cut, ...sizes, action: 'ü'.repeat(256) }, small], count: 2 });
  });

  it('tells the action of a row in another form as null', async () => {
    const { tasksUrl, runSql } = await startTasksServer();
    const insert = "INSERT INTO tasks (id, payload, created_at) VALUES (?, '{}', 4)";
    runSql(insert, idOf(1));
    const expected = { id: idOf(1), action: null, status: 'pending', payload: '{}', payload_bytes: 2, created_at: 4 };
    const { body } = await request(`${tasksUrl}?summary=1`);
    expect(body.tasks).to.deep.equal([{ ...expected, result: null, result_bytes: null, processed_at: null }]);
  });

  it('answers with the summaries of 100 large rows within a small budget', async () => {
    const responses = new ByteBudget(1_000_000);
    const { tasksUrl, storeRow } = await startTasksServer({ responses });
    for (let number = 0; number < 100; number++) storeRow(completed(number, 'sum', 'x'.repeat(500_000)));
    const { status, body } = await request(`${tasksUrl}?summary=1`);
    expect(status).to.equal(200);
    expect(idsOf(body)).to.deep.equal(Array.from({ length: 100 }, (_, index) => idOf(99 - index)));
    for (const row of body.tasks) expect(row.payload_bytes).to.be.above(500_000);
  });
});
