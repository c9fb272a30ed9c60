import { join } from 'node:path';
import { expect } from 'chai';
import { Database } from '../../../db/sqlite/database.ts';
import { migrate } from '../../../db/sqlite/migrate.ts';
import { Tasks } from '../../../db/sqlite/tasks.ts';
import { afterTest, temporaryFolder } from '../../support/cleanup.ts';
import { completed, describeTaskRows } from '../task-rows.ts';

/** Database that records the SQL text of its statements. */
class Watched extends Database {
  readonly texts: string[] = [];

  override statement(sql: string, returnsArrays = false) {
    this.texts.push(sql);
    return super.statement(sql, returnsArrays);
  }
}

async function fresh(): Promise<{ tasks: Tasks; database: Watched }> {
  const folder = await temporaryFolder();
  migrate(folder);
  const database = new Watched(join(folder, 'tasks.db'), { busyTimeoutMs: 50 });
  afterTest(() => database.close());
  return { tasks: new Tasks(database), database };
}

describe('Tasks', () => {
  describeTaskRows(async () => {
    const { tasks, database } = await fresh();
    const insert = "INSERT INTO tasks (id, payload, status, created_at) VALUES (?, '{}', ?, ?)";
    return {
      rows: tasks,
      store: (row, arrival) => tasks.store(arrival, row),
      insert: (...row) => void database.statement(insert).run(...row),
      dropTable: () => void database.statement('DROP TABLE tasks').run(),
      close: () => database.close(),
    };
  });

  const first = ['tasks_by_creation', ''] as const;
  for (const [what, filter, [index, column]] of [
    ['all rows', {}, first],
    ['completed tasks', { status: 'completed' }, first],
    ['another status', { status: 'pending' }, ['uncompleted_tasks_by_status', 'status=\\? AND ']],
    ['one action', { action: 'sum' }, ['tasks_by_action', '<expr>=\\? AND ']],
    ['one action and status', { action: 'sum', status: 'completed' }, ['tasks_by_action', '<expr>=\\? AND ']],
    ['a limit key', { view: { limit_key: 'k' } }, ['tasks_by_limit_key', 'limit_key=\\? AND ']],
    ['a submitter', { view: { submitter: 'u' }, status: 'completed' }, ['tasks_by_submitter', 'submitter=\\? AND ']],
    [
      'a rare status of a submitter',
      { view: { submitter: 'u' }, status: 'pending' },
      ['uncompleted_tasks_by_status', 'status=\\? AND '],
    ],
    [
      'a rare status of an action',
      { action: 'sum', status: 'pending' },
      ['uncompleted_tasks_by_status', 'status=\\? AND '],
    ],
  ] as const) {
    it(`reads a listing of ${what} by its index, at any depth, without sorting it`, async () => {
      const { tasks, database } = await fresh();
      tasks.store(1, completed('a', 1));
      const insert = "INSERT INTO tasks (id, payload, status, created_at) VALUES ('b', '{}', 'pending', 2)";
      database.statement(insert).run();
      for (const after of [undefined, [5, 5]]) {
        database.texts.length = 0;
        tasks.search(filter, after, 100);
        const [end, page] = database.texts.slice().map((sql) => planOf(database, sql));
        const bounds = (lower: string) =>
          `tasks USING (COVERING )?INDEX ${index} \\(${column}${lower}created_at<\\?\\)`;
        expect(end).to.match(new RegExp(`SEARCH ${bounds('')}`));
        if (page !== undefined) expect(page).to.match(new RegExp(`^SEARCH ${bounds('created_at>\\? AND ')}$`));
      }
    });
  }

  /** Returns the steps of a query's plan. */
  function planOf(database: Database, sql: string): string {
    const values = Array.from({ length: new Set(sql.match(/\?\d+/g)).size }, () => 1);
    const plan = database.statement(`EXPLAIN QUERY PLAN ${sql}`).all(...values);
    return plan.map(({ detail }) => String(detail)).join('\n');
  }

  it('raises an error instead of storing half a row', async () => {
    const { tasks } = await fresh();
    const payload = null as unknown as string;
    expect(() => tasks.store(1, completed('a', 1, { payload }))).to.throw('NOT NULL constraint failed: tasks.payload');
    expect(tasks.search({}, undefined, 9).found).to.deep.equal([]);
  });
});
