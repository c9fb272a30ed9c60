import { expect } from 'chai';
import { PostgresDatabase } from '../../../db/postgres/database.ts';
import { retentionRound } from '../../../db/postgres/retention.ts';
import { MAX_STEP_BYTES, MAX_STEP_ROWS, type RetentionLimits } from '../../../db/retention-limits.ts';
import { range } from '../../support/aged-rows.ts';
import { afterTest } from '../../support/cleanup.ts';
import { describeWithPostgres, migratedSchema } from '../../support/servers.ts';
import { eventually } from '../../support/until.ts';

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
  /** Runs a round. @returns the number of rows deleted in each step */
  const round = async (limits: RetentionLimits, afterStep: () => unknown = () => {}, on = database) => {
    const steps: number[] = [];
    await retentionRound(on, limits, NOW * 1000, async (deleted) => {
      steps.push(deleted);
      return (await afterStep()) !== false;
    });
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
      await add(...range(1, 2 * MAX_STEP_ROWS + 10).map((arrival) => ({ arrival })), { arrival: 1000, ...at(NOW) });
      expect(await round(limits)).to.deep.equal([MAX_STEP_ROWS, MAX_STEP_ROWS, 10]);
      expect(await left()).to.deep.equal([1000]);
    });

    it(`deletes a bounded number of bytes a step, and large rows alone: ${JSON.stringify(limits)}`, async () => {
      const { add, left, round } = await fresh();
      const sizes = [1, MAX_STEP_BYTES + 1, MAX_STEP_BYTES / 2, MAX_STEP_BYTES / 2, 1, 1];
      await add(...sizes.map((bytes, index) => ({ arrival: index + 1, bytes })), { arrival: 1000, ...at(NOW) });
      expect(await round(limits)).to.deep.equal([1, 1, 2, 2]);
      expect(await left()).to.deep.equal([1000]);
    });
  }

  it('goes on only as it is asked to, each step a transaction of its own', async () => {
    const { add, left, round } = await fresh();
    await add(...range(1, 3 * MAX_STEP_ROWS).map((arrival) => ({ arrival })));
    const seen: number[] = [];
    const steps = await round({ rows: 10, days: 0 }, async () => {
      seen.push((await left()).length);
      return seen.length < 2;
    });
    expect(steps).to.deep.equal([MAX_STEP_ROWS, MAX_STEP_ROWS]);
    expect(seen).to.deep.equal([2 * MAX_STEP_ROWS, MAX_STEP_ROWS]);
  });

  it('skips its round while another node runs one, until that has ended or failed', async () => {
    const { add, left, round, open } = await fresh();
    await add(...range(1, 5 * MAX_STEP_ROWS).map((arrival) => ({ arrival })));
    const other = open();
    const limits = { rows: 4 * MAX_STEP_ROWS, days: 0 };
    await round(limits, async () => {
      expect(await round({ rows: 1, days: 0 }, () => {}, other)).to.deep.equal([]);
    });
    expect(await round({ rows: 10, days: 0 }, () => false, other)).to.deep.equal([MAX_STEP_ROWS]);
    const failed = round({ rows: 1, days: 0 }, () => Promise.reject(new Error('no')));
    expect(await failed.catch(({ message }) => message)).to.equal('no');
    // The server releases the lock only after it has noticed the closed connection.
    await eventually(
      () => round({ rows: 1, days: 0 }, () => {}, other),
      (steps) => steps.length > 0,
    );
    expect(await left()).to.have.lengthOf(1);
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
