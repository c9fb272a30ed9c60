import { expect } from 'chai';
import { acquireLock, PostgresDatabase } from '../../../db/postgres/database.ts';
import { Retention } from '../../../db/postgres/retention.ts';
import { RETENTION_SLICE } from '../../../db/task-store.ts';
import { range } from '../../support/aged-rows.ts';
import { afterTest } from '../../support/cleanup.ts';
import { describeWithPostgres, migratedSchema } from '../../support/servers.ts';

const DAY = 86_400;
const NOW = 100 * DAY;

/** A row, identified by its arrival number. Times are Unix seconds. */
interface Row {
  arrival: number;
  createdAt?: number;
  processedAt?: number | null;
  bytes?: number;
}

/** Creates an empty table, and functions to fill it and to run a whole retention round. */
async function fresh() {
  const { url, sql } = await migratedSchema();
  const open = () => {
    const database = new PostgresDatabase(url, { connections: 2, timeLimitMs: 10_000 });
    afterTest(() => database.close());
    return database;
  };
  const database = open();
  const add = async (...rows: Row[]) => {
    await sql(
      `INSERT INTO tasks (id, payload, created_at, processed_at, arrival)
       SELECT 'id' || arrival, repeat('x', bytes), created, processed, arrival
       FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::int[]) AS row (arrival, created, processed, bytes)`,
      [
        rows.map(({ arrival }) => arrival),
        rows.map(({ createdAt = 0 }) => createdAt),
        rows.map(({ createdAt = 0, processedAt = createdAt }) => processedAt),
        rows.map(({ bytes = 1 }) => bytes),
      ],
    );
  };
  const left = async () => {
    const rows = await sql<{ arrival: number }>('SELECT arrival FROM tasks ORDER BY arrival');
    return rows.map(({ arrival }) => arrival);
  };
  /** Deletes rows until none is left to delete. @returns the number of rows deleted in each step */
  const round = async ({ rows, days }: { rows: number; days: number }, on = database) => {
    const retention = new Retention(on);
    const limits = { rows: rows || undefined, before: days > 0 ? NOW - days * DAY : undefined };
    const steps: number[] = [];
    for (let before = (await left()).length; await retention.deleteOldRows(limits); before -= steps.at(-1) ?? 0)
      steps.push(before - (await left()).length);
    return steps;
  };
  return { open, sql, add, left, round };
}

const at = (createdAt: number, processedAt: number | null = createdAt) => ({ createdAt, processedAt });

describeWithPostgres('a round of the retention in PostgreSQL', () => {
  it('deletes nothing where both limits are off, or there is less', async () => {
    const { add, left, round } = await fresh();
    expect(await round({ rows: 10, days: 1 })).to.deep.equal([]);
    await add(...range(1, 50).map((arrival) => ({ arrival })));
    expect(await round({ rows: 0, days: 0 })).to.deep.equal([]);
    for (const rows of [50, 51]) expect(await round({ rows, days: 0 })).to.deep.equal([]);
    expect(await left()).to.deep.equal(range(1, 50));
  });

  it('keeps the newest rows, those of one second by arrival', async () => {
    const { add, left, round } = await fresh();
    await add(...range(1, 25).map((arrival) => ({ arrival, ...at(7) })));
    await add(...range(26, 50).map((arrival) => ({ arrival, ...at(6) })));
    expect(await round({ rows: 20, days: 0 })).to.deep.equal([30]);
    expect(await left()).to.deep.equal(range(6, 25));
    expect(await round({ rows: 20, days: 0 })).to.deep.equal([]);
  });

  it('never keeps fewer if rows share an arrival number', async () => {
    const { sql, left, round } = await fresh();
    await sql(
      "INSERT INTO tasks (id, payload, created_at, arrival) SELECT 'id' || n, '', 1, 5 FROM generate_series(1, 9) n",
    );
    expect(await round({ rows: 4, days: 0 })).to.deep.equal([]);
    expect(await left()).to.have.lengthOf(9);
  });

  it('keeps the rows of tasks that were done within the days, whenever they were submitted', async () => {
    const { add, left, round } = await fresh();
    const limit = NOW - 7 * DAY;
    await add({ arrival: 1, ...at(limit - 1) }, { arrival: 2, ...at(limit) });
    await add({ arrival: 3, ...at(limit - 50 * DAY, limit - 1) }, { arrival: 4, ...at(limit - 50 * DAY, limit) });
    await add({ arrival: 5, ...at(0, NOW) }, { arrival: 6, ...at(0, null) }, { arrival: 7, ...at(limit, null) });
    await round({ rows: 0, days: 7 });
    expect(await left()).to.deep.equal([2, 4, 5, 7]);
  });

  it('keeps what is within both limits', async () => {
    const { add, left, round } = await fresh();
    await add(...range(1, 50).map((arrival) => ({ arrival, ...at(NOW - (50 - arrival) * DAY) })));
    await round({ rows: 20, days: 7 });
    expect(await left()).to.deep.equal(range(43, 50));
    await round({ rows: 5, days: 7 });
    expect(await left()).to.deep.equal(range(46, 50));
  });

  for (const limits of [
    { rows: 1, days: 0 },
    { rows: 0, days: 1 },
  ]) {
    it(`deletes a bounded number of rows a step: ${JSON.stringify(limits)}`, async () => {
      const { add, left, round } = await fresh();
      await add(...range(1, 2 * RETENTION_SLICE.maxLength + 10).map((arrival) => ({ arrival })), {
        arrival: 1000,
        ...at(NOW),
      });
      expect(await round(limits)).to.deep.equal([RETENTION_SLICE.maxLength, RETENTION_SLICE.maxLength, 10]);
      expect(await left()).to.deep.equal([1000]);
    });

    it(`deletes a bounded number of bytes a step, and large rows alone: ${JSON.stringify(limits)}`, async () => {
      const { add, left, round } = await fresh();
      const sizes = [1, RETENTION_SLICE.maxBytes + 1, RETENTION_SLICE.maxBytes / 2, RETENTION_SLICE.maxBytes / 2, 1, 1];
      await add(...sizes.map((bytes, index) => ({ arrival: index + 1, bytes })), { arrival: 1000, ...at(NOW) });
      expect(await round(limits)).to.deep.equal([1, 1, 2, 2]);
      expect(await left()).to.deep.equal([1000]);
    });
  }

  it('skips a step while another node is in one', async () => {
    const { add, left, round, open } = await fresh();
    await add(...range(1, 10).map((arrival) => ({ arrival })));
    await open().transaction(async (query) => {
      await acquireLock(query, 'retention');
      expect(await round({ rows: 5, days: 0 })).to.deep.equal([]);
    });
    expect(await round({ rows: 5, days: 0 })).to.deep.equal([5]);
    expect(await left()).to.deep.equal(range(6, 10));
  });

  it('reads no more than it keeps or deletes, by an index', async () => {
    const { sql } = await fresh();
    await sql(`INSERT INTO tasks (id, payload, created_at, processed_at, arrival)
      SELECT 'id' || n, '{}', n, n, n FROM generate_series(1, 20000) n`);
    await sql('ANALYZE tasks');
    const plan = await sql(
      'EXPLAIN SELECT created_at, arrival FROM tasks ORDER BY created_at DESC, arrival DESC OFFSET 10 LIMIT 1',
    );
    expect(JSON.stringify(plan)).to.include('Index Only Scan Backward using tasks_by_creation');
  });
});
