import { join } from 'node:path';
import { expect } from 'chai';
import fc from 'fast-check';
import { Database, DatabaseUnavailable } from '../../db/database.ts';
import { migrate } from '../../db/migrate.ts';
import { type CompletedTask, Tasks } from '../../db/tasks.ts';
import { afterTest, temporaryFolder } from '../support/cleanup.ts';

/** A database that remembers the texts of its statements. */
class Watched extends Database {
  readonly texts: string[] = [];

  override statement(sql: string) {
    this.texts.push(sql);
    return super.statement(sql);
  }
}

async function fresh(): Promise<{ tasks: Tasks; database: Watched }> {
  const folder = await temporaryFolder();
  migrate(folder);
  const database = new Watched(join(folder, 'tasks.db'), { busyTimeoutMs: 50 });
  afterTest(() => database.close());
  return { tasks: new Tasks(database), database };
}

function completed(id: string, created_at: number, more: Partial<CompletedTask> = {}): CompletedTask {
  return { id, payload: '{}', status: 'completed', result: '{"output":0}', created_at, processed_at: 9, ...more };
}

const insert = 'INSERT INTO tasks (id, payload, status, created_at) VALUES (?, ?, ?, ?)';
const ids = (rows: { id: string }[]) => rows.map(({ id }) => id);

describe('Tasks', () => {
  it('stores a row of which every field comes back', async () => {
    const { tasks } = await fresh();
    const task = completed('a', 5, { payload: '{"id":"a" }', result: '{"output":"ü"}', processed_at: 7 });
    tasks.store(task);
    expect(tasks.list()).to.deep.equal([task]);
    expect(Object.keys(tasks.list()[0] ?? {})).to.deep.equal(Object.keys(task));
  });

  it('keeps payload and result to the letter', async () => {
    const { tasks } = await fresh();
    await fc.assert(
      fc.property(fc.json(), fc.string({ unit: 'grapheme' }), (payload, text) => {
        const task = completed('a', 1, { payload, result: JSON.stringify({ output: text }) });
        tasks.store(task);
        expect(tasks.list()).to.deep.equal([task]);
      }),
      { numRuns: 50 },
    );
  });

  it('replaces the row that has the id already, whole', async () => {
    const { tasks, database } = await fresh();
    database.statement(insert).run('a', 'old', 'pending', 1);
    database.statement(insert).run('b', 'other', 'pending', 2);
    tasks.store(completed('a', 3, { payload: 'new' }));
    expect(ids(tasks.list())).to.deep.equal(['a', 'b']);
    expect(tasks.list()[0]).to.deep.equal(completed('a', 3, { payload: 'new' }));
  });

  it('lists nothing where nothing is stored', async () => {
    const { tasks } = await fresh();
    expect(tasks.list()).to.deep.equal([]);
    expect(tasks.list('completed')).to.deep.equal([]);
  });

  it('lists the newest first, those of one second by arrival with the last first', async () => {
    const { tasks } = await fresh();
    for (const [id, time] of [
      ['a', 2],
      ['b', 3],
      ['c', 2],
      ['d', 1],
      ['e', 2],
    ] as const)
      tasks.store(completed(id, time));
    expect(ids(tasks.list())).to.deep.equal(['b', 'e', 'c', 'a', 'd']);
    expect(ids(tasks.list('completed'))).to.deep.equal(['b', 'e', 'c', 'a', 'd']);
  });

  it('lists the newest 100 of more, whatever the order they came in', async () => {
    const { tasks } = await fresh();
    const order = Array.from({ length: 130 }, (_, index) => (index * 37) % 130);
    for (const time of order) tasks.store(completed(`t${time}`, time));
    const newest = Array.from({ length: 100 }, (_, index) => `t${129 - index}`);
    expect(ids(tasks.list())).to.deep.equal(newest);
    expect(ids(tasks.list('completed'))).to.deep.equal(newest);
  });

  it('lists 100 of one status although newer ones have another', async () => {
    const { tasks, database } = await fresh();
    for (let time = 0; time < 101; time++) tasks.store(completed(`c${time}`, time));
    for (let time = 101; time < 301; time++) database.statement(insert).run(`p${time}`, '{}', 'pending', time);
    expect(ids(tasks.list('completed'))).to.deep.equal(Array.from({ length: 100 }, (_, index) => `c${100 - index}`));
    expect(tasks.list('pending')).to.have.length(100);
  });

  it('lists only rows whose status is the one asked for, to the letter', async () => {
    const { tasks, database } = await fresh();
    tasks.store(completed('a', 1));
    database.statement(insert).run('b', '{}', 'pending', 2);
    database.statement(insert).run('c', '{}', '', 3);
    expect(ids(tasks.list('completed'))).to.deep.equal(['a']);
    expect(tasks.list('pending')).to.deep.equal([
      { id: 'b', payload: '{}', status: 'pending', result: null, created_at: 2, processed_at: null },
    ]);
    expect(ids(tasks.list(''))).to.deep.equal(['c']);
    for (const status of ['Completed', 'complete', '%', '*', "' OR 1=1 --"]) {
      expect(tasks.list(status), status).to.deep.equal([]);
    }
  });

  it('lists by an index, without sorting', async () => {
    const { tasks, database } = await fresh();
    tasks.list();
    tasks.list('completed');
    expect(database.texts).to.have.length(2);
    for (const [index, sql] of database.texts.slice().entries()) {
      const plan = database.statement(`EXPLAIN QUERY PLAN ${sql}`).all(...(index === 0 ? [] : ['completed']));
      const steps = plan.map(({ detail }) => String(detail));
      for (const step of steps) expect(step).to.match(/^(SCAN|SEARCH) tasks USING (COVERING )?INDEX/);
      expect(steps).to.have.length(1);
    }
  });

  it('tells a query that fails from a database that cannot be had', async () => {
    const { tasks, database } = await fresh();
    tasks.list();
    database.statement('DROP TABLE tasks').run();
    const calls = [() => tasks.list(), () => tasks.list('x'), () => tasks.store(completed('a', 1))];
    for (const call of calls) expect(call).to.throw('no such table').that.is.not.instanceOf(DatabaseUnavailable);
    database.close();
    for (const call of calls) expect(call).to.throw(DatabaseUnavailable);
  });

  it('raises an error instead of storing half a row', async () => {
    const { tasks } = await fresh();
    const payload = null as unknown as string;
    expect(() => tasks.store(completed('a', 1, { payload }))).to.throw('NOT NULL constraint failed: tasks.payload');
    expect(tasks.list()).to.deep.equal([]);
  });
});
