import { mock } from 'node:test';
import { expect } from 'chai';
import { NO_ATTEMPTS } from '../../../db/attempt-history.ts';
import { PostgresApiKeys } from '../../../db/postgres/api-keys.ts';
import { PURGE, REDRIVE } from '../../../db/postgres/dead-letters.ts';
import { CANCEL, end, putBack, RUN_NOW, report, stage, take } from '../../../db/postgres/messages.ts';
import { publish } from '../../../db/postgres/submissions.ts';
import { dialect } from '../../../db/postgres/tasks.ts';
import { statementsById } from '../../../db/reads.ts';
import { type SearchSteps, searchMessages, searchRows } from '../../../db/search.ts';
import { rowColumns } from '../../../db/task-rows.ts';
import type { Delivery } from '../../../db/task-store.ts';
import { openNode } from '../../store/postgres-driver.ts';
import { complete } from '../../store/settlements.ts';
import { messageOf, roomy, START } from '../../store/stage.ts';
import { describeWithPostgres, migratedSchema, openDatabase, type Schema } from '../../support/servers.ts';

/** Returns the generic plan of a statement, which PostgreSQL uses for a prepared one after a few executions. */
async function planOf({ sql }: Schema, text: string): Promise<string> {
  await sql('SET plan_cache_mode = force_generic_plan');
  await sql(`PREPARE planned AS ${text}`);
  const values = Array.from({ length: new Set(text.match(/\$\d+/g)).size }, () => 'NULL');
  const rows = await sql<object>(`EXPLAIN EXECUTE planned${values.length > 0 ? ` (${values})` : ''}`);
  await sql('DEALLOCATE planned');
  return rows.map((row) => Object.values(row)[0]).join('\n');
}

async function preferIndexes({ sql }: Schema): Promise<void> {
  for (const plan of ['seqscan', 'bitmapscan', 'hashjoin', 'mergejoin', 'sort']) await sql(`SET enable_${plan} = off`);
}

async function plansOf(schema: Schema, steps: SearchSteps): Promise<string> {
  const plans: string[] = [];
  const end = { k0: 1, k1: 1, k2: 1, k3: 1, time: 1 };
  for (let step = steps.next([]); !step.done && plans.length < 2; step = steps.next([end]))
    plans.push(await planOf(schema, step.value[0]));
  return plans.join('\n');
}

const delivery = { arrival: 1, delivery: 1, body: '{"created_at":1}', history: NO_ATTEMPTS } as unknown as Delivery;
const counter = ['one', 'settlements'] as const;

describeWithPostgres('the statements in PostgreSQL', () => {
  for (const size of [0, 20_000])
    it(`reach messages by indexes only, planned with ${size} messages`, async () => {
      const schema = await migratedSchema();
      await schema.sql(`INSERT INTO messages (id, run_at, accepted_at, body)
        SELECT 'id' || n, n, n, '{"created_at":1}' FROM generate_series(1, ${size}) n`);
      await schema.sql('ANALYZE messages');
      await (await openNode(schema.url, 'one', { bounds: roomy, now: () => START })).close();
      await preferIndexes(schema);
      for (const [index, [text]] of [
        ['waiting_messages', take('one', { max: 5, isIdle: true, longest: 1 }, false)],
        ['later_messages', stage(counter, START)],
        ['messages_pkey', end(counter, [{ delivery, settlement: complete() }], START, 'one')],
        ['messages_pkey', putBack(counter, [{ delivery, state: 'waiting' }], START)],
        ['messages_pkey', report([{ delivery, startedAt: 1, progress: undefined }])],
        ['messages_pkey', [REDRIVE]],
        ['messages_pkey', [PURGE]],
        ['messages_id_key', [CANCEL]],
        ['messages_id_key', [RUN_NOW]],
        ['', publish(counter, [{ message: messageOf('a'), key: undefined }], START, roomy)],
      ] as const) {
        const plan = await planOf(schema, text);
        expect(plan, plan).to.not.match(/(Seq|Bitmap Heap) Scan on (messages|tasks)/);
        if (index !== '') expect(plan, plan).to.match(new RegExp(`using ${index} on messages`));
        for (const [, condition] of plan.matchAll(/Scan using messages_pkey.*\n *(.*)/g))
          expect(condition, plan).to.match(/Index Cond: \(arrival =/);
      }
    });

  it('reach rows by their ids alone, the last row to keep by creation, and API keys by their digests', async () => {
    const schema = await migratedSchema();
    const { url, sql } = schema;
    await sql(`INSERT INTO tasks (id, payload, status, result, created_at, processed_at, arrival, limit_key)
      SELECT 'id' || n, '{}', 'completed', '{}', n / 50, n, n, 'k' FROM generate_series(1, 50000) AS n`);
    await sql(`INSERT INTO api_keys (api_key, user_id, created_at)
      SELECT 'key ' || n, 'alice', n FROM generate_series(1, 5000) n`);
    await sql('ANALYZE tasks, api_keys');
    const { whole, summary } = rowColumns;
    for (const columns of [whole, summary, 'created_at, arrival']) {
      const { one, several } = statementsById(dialect, columns, 'tasks');
      for (const statement of [one, several]) {
        const plan = await planOf(schema, statement);
        expect(plan, plan).to.match(/Index Scan (Backward )?using tasks_pkey /);
        expect(plan, plan).to.not.match(/Sort|Filter/);
      }
    }
    const oldest = 'SELECT created_at, arrival FROM tasks ORDER BY created_at DESC, arrival DESC OFFSET 10 LIMIT 1';
    expect(await planOf(schema, oldest)).to.include('Index Only Scan Backward using tasks_by_creation');
    const database = openDatabase(url);
    const { mock: spy } = mock.method(database, 'query');
    expect(await new PostgresApiKeys(database).findOwner('key 7')).to.include({ user_id: 'alice' });
    expect(spy.callCount()).to.equal(1);
    const [text = '', [digest] = []] = spy.calls[0]?.arguments ?? [];
    expect(digest).to.be.instanceOf(Buffer).with.property('length', 32);
    expect(await planOf(schema, text))
      .to.include('Index Scan using api_keys_by_digest')
      .and.not.include('Filter');
  });

  it('of a search read only what an index has between two positions', async () => {
    const schema = await migratedSchema();
    const { sql } = schema;
    await preferIndexes(schema);
    await sql(`INSERT INTO messages (id, action, state, run_at, accepted_at, body, failed_at, schedule)
      SELECT 'id' || n, 'a', CASE n % 10 WHEN 0 THEN 'failed' WHEN 1 THEN 'scheduled' ELSE 'waiting' END, n, n, '{}',
        CASE n % 10 WHEN 0 THEN n END, CASE n % 100 WHEN 3 THEN 's' END FROM generate_series(1, 50000) AS n`);
    await sql(`INSERT INTO tasks (id, payload, status, created_at, arrival, limit_key)
      SELECT 'id' || n, '{}', 'completed', n / 50, n, 'k' FROM generate_series(1, 50000) AS n`);
    await sql('ANALYZE messages, tasks');
    for (const [search, filter, index] of [
      [searchMessages, {}, 'messages_pkey'],
      [searchMessages, { state: 'unfinished', action: 'a' }, 'messages_pkey'],
      [searchMessages, { state: 'failed', text: 'x' }, 'dead_letters_by_age'],
      [searchMessages, { state: 'waiting', text: 'x' }, 'waiting_messages'],
      [searchMessages, { state: 'scheduled' }, 'later_messages'],
      [searchMessages, { state: 'limited' }, 'limited_messages'],
      [searchMessages, { schedule: 's' }, 'messages_by_schedule|messages_pkey'],
      [searchMessages, { idPrefix: 'a' }, 'messages_id_key'],
      [searchRows, { text: 'x' }, 'tasks_by_creation'],
      [searchRows, { status: 'completed' }, 'tasks_by_creation|tasks_by_status'],
      [searchRows, { status: 'x', action: 'a' }, 'tasks_by_status'],
      [searchRows, { action: 'a', status: 'completed' }, 'tasks_by_action'],
      [searchRows, { limitKey: 'k' }, 'tasks_by_limit_key'],
      [searchRows, { view: { submitter: 'u' }, action: 'a' }, 'tasks_by_submitter'],
      [searchRows, { idPrefix: 'a' }, 'tasks_pkey'],
    ] as const) {
      const plan = await plansOf(schema, search(dialect, filter, undefined, 100));
      const scans = plan.match(/(?<=using )\w+|Seq Scan/g) ?? [];
      expect(scans, `${JSON.stringify(filter)}\n${plan}`).to.have.length(2);
      for (const scan of scans) expect(scan, plan).to.match(new RegExp(`^(?:${index})$`));
    }
  });
});
