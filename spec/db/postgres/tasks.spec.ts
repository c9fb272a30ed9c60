import { expect } from 'chai';
import { PostgresDatabase } from '../../../db/postgres/database.ts';
import { STORE_ROWS, Tasks, taskStatements } from '../../../db/postgres/tasks.ts';
import { afterTest } from '../../support/cleanup.ts';
import { describeWithPostgres, migratedSchema } from '../../support/servers.ts';
import { describeTaskRows, type FreshRows } from '../task-rows.ts';

async function fresh() {
  const { url, sql } = await migratedSchema();
  const database = new PostgresDatabase(url, { connections: 1, timeLimitMs: 60_000 });
  afterTest(() => database.close());
  const insert = "INSERT INTO tasks (id, payload, status, created_at) VALUES ($1, '{}', $2, $3)";
  return {
    sql,
    rows: new Tasks(database),
    async store(row, arrival) {
      await database.query(STORE_ROWS, [JSON.stringify([{ ...row, arrival }])]);
    },
    insert: async (...row) => void (await sql(insert, row)),
    dropTable: async () => void (await sql('DROP TABLE tasks')),
    close: () => database.close(),
  } satisfies FreshRows & { sql: typeof sql };
}

describeWithPostgres('Tasks in PostgreSQL', () => {
  describeTaskRows(fresh);

  /** Returns the generic plan, which PostgreSQL uses for a prepared statement after a few executions. */
  async function planOf({ sql }: Awaited<ReturnType<typeof fresh>>, text: string) {
    const types = Array.from({ length: new Set(text.match(/\$\d/g)).size }, () => 'NULL');
    await sql('SET plan_cache_mode = force_generic_plan');
    await sql(`PREPARE planned AS ${text}`);
    const rows = await sql<{ 'QUERY PLAN': string }>(`EXPLAIN EXECUTE planned ${types.length > 0 ? `(${types})` : ''}`);
    await sql('DEALLOCATE planned');
    return rows.map((row) => row['QUERY PLAN']).join('\n');
  }

  for (const [what, status] of [
    ['one status', "'completed'"],
    ['two', "CASE WHEN n % 10 = 0 THEN 'pending' ELSE 'completed' END"],
    ['many', 'n::text'],
  ]) {
    it(`reads rows by their ids alone, where rows have ${what}`, async () => {
      const made = await fresh();
      await made.sql(`INSERT INTO tasks (id, payload, status, result, created_at, processed_at, arrival, limit_key)
        SELECT 'id' || n, '{}', ${status}, '{}', n / 50, n, n, 'k' FROM generate_series(1, 50000) AS n`);
      await made.sql('ANALYZE tasks');
      const { whole, summary, position } = taskStatements;
      for (const [statement, index] of [
        [whole, 'tasks_pkey'],
        [summary, 'tasks_pkey'],
        [position, 'tasks_pkey'],
      ] as const) {
        const plan = await planOf(made, statement as string);
        expect(plan, plan).to.match(new RegExp(`Index Scan (Backward )?using ${index} `));
        expect(plan, plan).to.not.match(/Sort|Filter/);
      }
    });
  }
});
