import { expect } from 'chai';
import { PostgresDatabase } from '../../../db/postgres/database.ts';
import { listingQuery } from '../../../db/postgres/task-listing.ts';
import { PostgresTasks, taskStatements } from '../../../db/postgres/tasks.ts';
import { DatabaseUnavailable } from '../../../db/sqlite/database.ts';
import { afterTest } from '../../support/cleanup.ts';
import { describeWithPostgres, migratedSchema } from '../../support/servers.ts';
import { completed, describeTaskStore, ids } from '../task-store.ts';

async function fresh() {
  const { url, sql } = await migratedSchema();
  const database = new PostgresDatabase(url, { connections: 1, timeLimitMs: 60_000 });
  afterTest(() => database.close());
  return {
    url,
    sql,
    tasks: new PostgresTasks(database, 60_000),
    async insert(id: string, status: string, createdAt: number) {
      await sql("INSERT INTO tasks (id, payload, status, created_at) VALUES ($1, '{}', $2, $3)", [
        id,
        status,
        createdAt,
      ]);
    },
    async dropTable() {
      await sql('DROP TABLE tasks');
    },
    close: () => database.close(),
  };
}

describeWithPostgres('PostgresTasks', () => {
  describeTaskStore(fresh);

  /** Returns the generic plan, which PostgreSQL uses for a prepared statement after a few executions. */
  async function planOf({ sql }: Awaited<ReturnType<typeof fresh>>, { name, text }: { name: string; text: string }) {
    const types = Array.from({ length: new Set(text.match(/\$\d/g)).size }, () => 'NULL');
    await sql('SET plan_cache_mode = force_generic_plan');
    await sql(`PREPARE "${name}" AS ${text}`);
    const rows = await sql<{ 'QUERY PLAN': string }>(
      `EXPLAIN EXECUTE "${name}" ${types.length > 0 ? `(${types})` : ''}`,
    );
    return rows.map((row) => row['QUERY PLAN']).join('\n');
  }

  for (const [what, status] of [
    ['one status', "'completed'"],
    ['two', "CASE WHEN n % 10 = 0 THEN 'pending' ELSE 'completed' END"],
    ['many', 'n::text'],
  ]) {
    it(`reads a listing by its index, without sorting or looking farther, where rows have ${what}`, async () => {
      const made = await fresh();
      await made.sql(`INSERT INTO tasks (id, payload, status, result, created_at, processed_at, arrival)
        SELECT 'id' || n, '{}', ${status}, '{}', n / 50, n, n FROM generate_series(1, 50000) AS n`);
      await made.sql('ANALYZE tasks');
      const { FIND, FIND_SUMMARY, POSITION } = taskStatements;
      const listings = [{}, { status: 'x' }, { action: 'x' }].map(
        (filter) => listingQuery('list', '*', filter).statement,
      );
      for (const [statement, index] of [
        [FIND, 'tasks_pkey'],
        [FIND_SUMMARY, 'tasks_pkey'],
        [POSITION, 'tasks_pkey'],
        [listings[0], 'tasks_by_creation'],
        [listings[1], 'tasks_by_status'],
        [listings[2], 'tasks_by_action'],
      ] as const) {
        const plan = await planOf(made, statement as { name: string; text: string });
        expect(plan, plan).to.match(new RegExp(`Index Scan (Backward )?using ${index} `));
        expect(plan, plan).to.not.match(/Sort|Filter/);
      }
      for (const [filter, index] of [
        [{ action: 'x', status: 'completed' }, 'tasks_by_action'],
        [{ action: 'x', status: 'pending' }, 'tasks_by_status'],
      ] as const) {
        const plan = await planOf(made, listingQuery('list', '*', filter).statement);
        expect(plan, plan).to.match(new RegExp(`Index Scan Backward using ${index} `));
        expect(plan, plan).to.not.match(/Sort/);
      }
    });
  }

  /** Opens a store whose table counts the INSERT statements. */
  async function counted() {
    const made = await fresh();
    await made.sql('CREATE TABLE log (at timestamptz DEFAULT now())');
    await made.sql(`CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS
      $$ BEGIN INSERT INTO log DEFAULT VALUES; RETURN NULL; END $$`);
    await made.sql('CREATE TRIGGER note AFTER INSERT ON tasks FOR EACH STATEMENT EXECUTE FUNCTION note()');
    return { ...made, statements: async () => (await made.sql('SELECT * FROM log')).length };
  }

  it('writes a batch in one statement', async () => {
    const { tasks, statements } = await counted();
    await tasks.storeAll([completed('a', 1), completed('b', 1), completed('c', 1)]);
    expect(await statements()).to.equal(1);
    expect(ids(await tasks.list())).to.deep.equal(['c', 'b', 'a']);
  });

  it('writes large rows in several statements', async () => {
    const { tasks, statements } = await counted();
    const rows = Array.from({ length: 3 }, (_, n) => completed(`${n}`, n, { payload: '"\\'.repeat(1_500_000) }));
    expect(await tasks.storeAll(rows)).to.deep.equal(rows.map(() => undefined));
    expect(await statements()).to.equal(2);
    for (const row of rows) expect(await tasks.find(row.id)).to.deep.equal(row);
  });

  it('connects to an absent server once per batch, even for several statements', async () => {
    let asked = 0;
    const query = async () => {
      asked++;
      throw new DatabaseUnavailable('away');
    };
    const tasks = new PostgresTasks({ query } as unknown as PostgresDatabase);
    const rows = Array.from({ length: 3 }, (_, n) => completed(`${n}`, n, { payload: 'x'.repeat(5_000_000) }));
    const failures = await tasks.storeAll(rows);
    expect(failures.map((failure) => failure?.ofRow)).to.deep.equal([false, false, false]);
    expect(asked).to.equal(1);
  });

  it('writes the last of two rows with the same id', async () => {
    const { tasks } = await fresh();
    const rows = [completed('a', 1, { payload: 'first' }), completed('b', 1), completed('a', 1, { payload: 'second' })];
    expect(await tasks.storeAll(rows)).to.deep.equal([undefined, undefined, undefined]);
    expect(await tasks.find('a')).to.have.property('payload', 'second');
  });

  for (const [what, row] of [
    ['a text with a NUL in it', completed('b', 1, { payload: '\0' })],
    ['a number that is none', completed('b', 1, { processed_at: Number.NaN })],
    ['an id that is too long for its index', completed(Array.from({ length: 9000 }, (_, n) => n).join(), 1)],
  ] as const) {
    it(`refuses ${what}, and no other row of the batch`, async () => {
      const { tasks } = await fresh();
      const [a, b, c] = await tasks.storeAll([completed('a', 1), row, completed('c', 1)]);
      expect([a, c]).to.deep.equal([undefined, undefined]);
      expect(b).to.have.property('ofRow', true);
      expect(ids(await tasks.list())).to.deep.equal(['c', 'a']);
    });
  }

  it('reports a row that a trigger refuses', async () => {
    const { tasks, sql } = await fresh();
    await sql(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
      $$ BEGIN IF NEW.id = 'b' THEN RAISE 'not b'; END IF; RETURN NEW; END $$`);
    await sql('CREATE TRIGGER refuse BEFORE INSERT ON tasks FOR EACH ROW EXECUTE FUNCTION refuse()');
    const [a, b, c] = await tasks.storeAll([completed('a', 1), completed('b', 1), completed('c', 1)]);
    expect([a, c]).to.deep.equal([undefined, undefined]);
    expect(b).to.deep.include({ ofRow: true }).and.have.nested.property('error.message', 'not b');
  });

  it('times out on a lock, and counts it against no row', async () => {
    const { url, sql } = await fresh();
    const database = new PostgresDatabase(url, { connections: 1, timeLimitMs: 5000, lockLimitMs: 50 });
    afterTest(() => database.close());
    await sql('BEGIN');
    await sql('LOCK TABLE tasks');
    const [failure] = await new PostgresTasks(database).storeAll([completed('a', 1), completed('b', 1)]);
    expect(failure).to.have.property('ofRow', false);
    expect(failure).to.have.nested.property('error.message', 'canceling statement due to lock timeout');
    await sql('COMMIT');
  });
});
