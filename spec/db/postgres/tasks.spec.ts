import { expect } from 'chai';
import { dialect } from '../../../db/postgres/tasks.ts';
import { statementsById } from '../../../db/reads.ts';
import { type SearchSteps, searchMessages, searchRows } from '../../../db/search.ts';
import { type Position, rowColumns, type SearchFilter } from '../../../db/task-rows.ts';
import { describeWithPostgres, migratedSchema } from '../../support/servers.ts';

describeWithPostgres('Tasks in PostgreSQL', () => {
  it('reads rows by their ids alone', async () => {
    const { sql } = await migratedSchema();
    await sql(`INSERT INTO tasks (id, payload, status, result, created_at, processed_at, arrival, limit_key)
      SELECT 'id' || n, '{}', 'completed', '{}', n / 50, n, n, 'k' FROM generate_series(1, 50000) AS n`);
    await sql('ANALYZE tasks');
    // The generic plan, which PostgreSQL uses for a prepared statement after a few executions.
    await sql('SET plan_cache_mode = force_generic_plan');
    const { whole, summary } = rowColumns;
    const selections = [whole, summary, 'created_at, arrival'].map((columns) =>
      statementsById(dialect, columns, 'tasks'),
    );
    for (const statement of selections.flatMap(({ one, several }) => [one, several])) {
      await sql(`PREPARE planned AS ${statement}`);
      const rows = await sql<{ 'QUERY PLAN': string }>('EXPLAIN EXECUTE planned (NULL)');
      await sql('DEALLOCATE planned');
      const plan = rows.map((row) => row['QUERY PLAN']).join('\n');
      expect(plan, plan).to.match(/Index Scan (Backward )?using tasks_pkey /);
      expect(plan, plan).to.not.match(/Sort|Filter/);
    }
  });
});

describeWithPostgres('a search in PostgreSQL', () => {
  /** Returns the generic plans of both statements, which PostgreSQL uses after a few executions. */
  async function plansOf(sql: (text: string) => Promise<object[]>, steps: SearchSteps, keys: number): Promise<string> {
    const plans: string[] = [];
    const end = Object.fromEntries(Array.from({ length: keys }, (_, index) => [`k${index}`, 1]));
    for (let step = steps.next([]); !step.done; step = steps.next([{ ...end, time: 1 }])) {
      const [text, values] = step.value;
      await sql(`PREPARE planned AS ${text}`);
      const rows = await sql(`EXPLAIN EXECUTE planned (${values.map(() => 'NULL')})`);
      await sql('DEALLOCATE planned');
      plans.push(rows.map((row) => Object.values(row)[0]).join('\n'));
      if (plans.length === 2) break;
    }
    return plans.join('\n');
  }

  it('reads only what the index has between two positions', async function () {
    this.timeout(60_000);
    const { sql } = await migratedSchema();
    for (const plan of ['seqscan', 'bitmapscan', 'hashjoin', 'mergejoin', 'sort'])
      await sql(`SET enable_${plan} = off`);
    await sql('SET plan_cache_mode = force_generic_plan');
    await sql(`INSERT INTO messages (id, action, state, run_at, accepted_at, body, failed_at, schedule)
      SELECT 'id' || n, 'a', CASE n % 10 WHEN 0 THEN 'failed' WHEN 1 THEN 'scheduled' ELSE 'waiting' END, n, n, '{}',
        CASE n % 10 WHEN 0 THEN n END, CASE n % 100 WHEN 3 THEN 's' END FROM generate_series(1, 50000) AS n`);
    await sql(`INSERT INTO tasks (id, payload, status, created_at, arrival, limit_key)
      SELECT 'id' || n, '{}', 'completed', n / 50, n, 'k' FROM generate_series(1, 50000) AS n`);
    await sql('ANALYZE messages, tasks');
    type Search = (
      given: typeof dialect,
      filter: SearchFilter,
      after: Position | undefined,
      limit: number,
    ) => SearchSteps;
    const cases: [search: Search, filter: SearchFilter, keys: number, index: string][] = [
      [searchMessages, {}, 1, 'messages_pkey'],
      [searchMessages, { state: 'unfinished', action: 'a' }, 1, 'messages_pkey'],
      [searchMessages, { state: 'failed', text: 'x' }, 2, 'dead_letters_by_age'],
      [searchMessages, { state: 'waiting', text: 'x' }, 4, 'waiting_messages'],
      [searchMessages, { state: 'scheduled' }, 2, 'later_messages'],
      [searchMessages, { state: 'limited' }, 4, 'limited_messages'],
      [searchMessages, { schedule: 's' }, 1, 'messages_by_schedule|messages_pkey'],
      [searchMessages, { idPrefix: 'a' }, 1, 'messages_id_key'],
      [searchRows, { text: 'x' }, 2, 'tasks_by_creation'],
      [searchRows, { status: 'completed' }, 2, 'tasks_by_creation|tasks_by_status'],
      [searchRows, { status: 'x', action: 'a' }, 2, 'tasks_by_status'],
      [searchRows, { action: 'a', status: 'completed' }, 2, 'tasks_by_action'],
      [searchRows, { limitKey: 'k' }, 2, 'tasks_by_limit_key'],
      [searchRows, { view: { submitter: 'u' }, action: 'a' }, 2, 'tasks_by_submitter'],
      [searchRows, { idPrefix: 'a' }, 1, 'tasks_pkey'],
    ];
    for (const [search, filter, keys, index] of cases) {
      const plan = await plansOf(sql, search(dialect, filter, undefined, 100), keys);
      const scans = plan.match(/(?<=using )\w+|Seq Scan/g) ?? [];
      expect(scans, `${JSON.stringify(filter)}\n${plan}`).to.have.length(2);
      for (const scan of scans)
        expect(scan, `${JSON.stringify(filter)}\n${plan}`).to.match(new RegExp(`^(?:${index})$`));
    }
  });
});
