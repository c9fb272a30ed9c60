import { expect } from 'chai';
import { acquireLock, PostgresDatabase } from '../../../db/postgres/database.ts';
import { Retention } from '../../../db/postgres/retention.ts';
import type { RetentionLimits } from '../../../db/task-store.ts';
import { type Row, range } from '../../support/aged-rows.ts';
import { afterTest } from '../../support/cleanup.ts';
import { describeWithPostgres, migratedSchema } from '../../support/servers.ts';
import { at, describeRetention } from '../retention.ts';

/** Creates an empty table, and functions to fill it and to run a whole pass of the retention. */
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
  const runPass = async ({ rows, before }: Partial<RetentionLimits>) => {
    const retention = new Retention(database);
    const steps: number[] = [];
    for (let count = (await left()).length; await retention.deleteOldRows({ rows, before }); count -= steps.at(-1) ?? 0)
      steps.push(count - (await left()).length);
    return steps;
  };
  return { open, sql, add, left, runPass };
}

describeWithPostgres('a pass of the retention in PostgreSQL', () => {
  describeRetention(fresh);

  it('keeps the newest rows, those of one second by arrival', async () => {
    const { add, left, runPass } = await fresh();
    await add(...range(1, 25).map((arrival) => ({ arrival, ...at(7) })));
    await add(...range(26, 50).map((arrival) => ({ arrival, ...at(6) })));
    expect(await runPass({ rows: 20 })).to.deep.equal([30]);
    expect(await left()).to.deep.equal(range(6, 25));
    expect(await runPass({ rows: 20 })).to.deep.equal([]);
  });

  it('never keeps fewer if rows share an arrival number', async () => {
    const { sql, left, runPass } = await fresh();
    await sql(
      "INSERT INTO tasks (id, payload, created_at, arrival) SELECT 'id' || n, '', 1, 5 FROM generate_series(1, 9) n",
    );
    expect(await runPass({ rows: 4 })).to.deep.equal([]);
    expect(await left()).to.have.lengthOf(9);
  });

  it('skips a step while another node is in one', async () => {
    const { add, left, runPass, open } = await fresh();
    await add(...range(1, 10).map((arrival) => ({ arrival })));
    await open().transaction(async (query) => {
      await acquireLock(query, 'retention');
      expect(await runPass({ rows: 5 })).to.deep.equal([]);
    });
    expect(await runPass({ rows: 5 })).to.deep.equal([5]);
    expect(await left()).to.deep.equal(range(6, 10));
  });
});
