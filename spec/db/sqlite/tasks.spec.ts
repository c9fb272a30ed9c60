import { join } from 'node:path';
import { mock } from 'node:test';
import { expect } from 'chai';
import { taskReads } from '../../../db/reads.ts';
import { Database } from '../../../db/sqlite/database.ts';
import { excessRows, retentionPass } from '../../../db/sqlite/retention.ts';
import { dialect, storeRow } from '../../../db/sqlite/tasks.ts';
import { afterTest } from '../../support/cleanup.ts';
import { migratedFolder } from '../../support/migrated-folder.ts';

const completed = { id: 'a', payload: '{}', status: 'completed', result: '{}', created_at: 1, processed_at: 9 };

async function fresh() {
  const database = new Database(join(await migratedFolder(), 'tasks.db'), { busyTimeoutMs: 50 });
  afterTest(() => database.close());
  const { mock: spy } = mock.method(database, 'statement');
  const textsOf = async (call: () => unknown) => {
    const before = spy.callCount();
    await call();
    return spy.calls.slice(before).map((each) => each.arguments[0]);
  };
  return { ...taskReads(dialect, database.read), database, textsOf };
}

describe('Tasks', () => {
  function planOf(database: Database, sql: string): string {
    const values = Array.from({ length: new Set(sql.match(/\$\d+/g)).size || sql.split('?').length - 1 }, () => 1);
    const plan = database.statement(`EXPLAIN QUERY PLAN ${sql}`).all(...values);
    return plan.map(({ detail }) => String(detail)).join('\n');
  }

  it('reads each listing by an index, at any depth, without sorting it', async () => {
    const { rows, database, textsOf } = await fresh();
    storeRow(database, 1, completed);
    storeRow(database, 2, { ...completed, id: 'b', status: 'pending', created_at: 2 });
    for (const [filter, index] of [
      [{}, 'tasks_by_creation ('],
      [{ status: 'completed' }, 'tasks_by_creation ('],
      [{ status: 'pending' }, 'uncompleted_tasks_by_status (status=? AND '],
      [{ action: 'sum' }, 'tasks_by_action (<expr>=? AND '],
      [{ action: 'sum', status: 'completed' }, 'tasks_by_action (<expr>=? AND '],
      [{ action: 'sum', status: 'pending' }, 'uncompleted_tasks_by_status (status=? AND '],
      [{ view: { limit_key: 'k' } }, 'tasks_by_limit_key (limit_key=? AND '],
      [{ view: { submitter: 'u' }, status: 'completed' }, 'tasks_by_submitter (submitter=? AND '],
      [{ view: { submitter: 'u' }, status: 'pending' }, 'uncompleted_tasks_by_status (status=? AND '],
    ] as const) {
      for (const after of [undefined, [5, 5]]) {
        const texts = await textsOf(() => rows.search(filter, after, 100));
        const [end, page] = texts.map((sql) => planOf(database, sql).replace('COVERING ', ''));
        expect(end).to.include(`SEARCH tasks USING INDEX ${index}created_at<?)`);
        if (page !== undefined)
          expect(page).to.equal(`SEARCH tasks USING INDEX ${index}created_at>? AND created_at<?)`);
      }
    }
  });

  it('reads one row or message by the index of its id, and a body as it is unless a length is given', async () => {
    const { rows, read, database, textsOf } = await fresh();
    const texts = await textsOf(async () => {
      for (const part of ['whole', 'detailed', 'summary'] as const) await rows.find('a', part);
      await rows.position('a');
      await read(['a']);
      await read(['a'], 1);
    });
    const byId = (table: string) => `SEARCH ${table} USING INDEX sqlite_autoindex_${table}_1 (id=?)`;
    const plans = texts.map((sql) => planOf(database, sql));
    expect(plans).to.deep.equal([...Array(4).fill(byId('tasks')), ...Array(2).fill(byId('messages'))]);
    expect(texts.filter((sql) => sql.includes('substr(body'))).to.have.length(1);
  });

  it('finds old rows by an index, or in the order of arrival, without sorting them', async () => {
    const { database, textsOf } = await fresh();
    for (const id of ['a', 'b']) storeRow(database, 1, { ...completed, id });
    const texts = await textsOf(() => [...retentionPass(database, excessRows(database, 1), 10)]);
    const ofRows = texts.filter((sql) => /^(SELECT|DELETE)/.test(sql) && sql.includes('tasks'));
    expect([...new Set(ofRows)].map((sql) => planOf(database, sql))).to.deep.equal([
      'SCAN tasks USING COVERING INDEX tasks_by_creation',
      // From the first row up to the limit.
      'SCAN tasks',
      'SEARCH tasks USING INTEGER PRIMARY KEY (rowid=?)',
      'SEARCH tasks USING INDEX tasks_by_creation (created_at>? AND created_at<?)',
    ]);
  });

  it('keeps both rows if two tasks have the same arrival number', async () => {
    const { rows, database } = await fresh();
    for (const id of ['a', 'b']) storeRow(database, 10, { ...completed, id });
    expect((await rows.search({}, undefined, 9)).found.map(({ id }) => id)).to.have.members(['a', 'b']);
  });
});
