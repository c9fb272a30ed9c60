import { join } from 'node:path';
import { expect } from 'chai';
import { Database } from '../../../db/sqlite/database.ts';
import { migrate } from '../../../db/sqlite/migrate.ts';
import { Tasks } from '../../../db/sqlite/tasks.ts';
import { afterTest, temporaryFolder } from '../../support/cleanup.ts';
import { completed, describeTaskStore } from '../task-store.ts';

/** Database that records the SQL text of its statements. */
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

describe('Tasks', () => {
  describeTaskStore(async () => {
    const { tasks, database } = await fresh();
    return {
      tasks,
      async insert(...row) {
        database.statement("INSERT INTO tasks (id, payload, status, created_at) VALUES (?, '{}', ?, ?)").run(...row);
      },
      async dropTable() {
        database.statement('DROP TABLE tasks').run();
      },
      async close() {
        database.close();
      },
    };
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

  it('raises an error instead of storing half a row', async () => {
    const { tasks } = await fresh();
    const payload = null as unknown as string;
    expect(() => tasks.store(completed('a', 1, { payload }))).to.throw('NOT NULL constraint failed: tasks.payload');
    expect(tasks.list()).to.deep.equal([]);
  });
});
