import { expect } from 'chai';
import { startRetentionRounds } from '../../main/cluster/retention-rounds.ts';
import { afterTest } from '../support/cleanup.ts';
import { captureLog } from '../support/log.ts';
import { describeWithPostgres, migratedSchema } from '../support/servers.ts';
import { eventually } from '../support/until.ts';

async function start(limits: { rows: number; days: number }, rows: number) {
  const { url, sql } = await migratedSchema();
  const add = (from: number, to: number) =>
    sql(
      "INSERT INTO tasks (id, payload, created_at, arrival) SELECT 'id' || n, '{}', n, n FROM generate_series($1::int, $2::int) n",
      [from, to],
    );
  await add(1, rows);
  const { log, lines, logged } = captureLog();
  const launch = () => {
    const rounds = startRetentionRounds(url, limits, log);
    afterTest(() => rounds.stop());
    return rounds;
  };
  const count = async () => (await sql<{ n: number }>('SELECT count(*) AS n FROM tasks'))[0]?.n as number;
  return { url, sql, add, launch, count, lines, logged };
}

describeWithPostgres('startRetentionRounds', () => {
  it('deletes rows beyond the limit, and rows added later', async () => {
    const { add, launch, count, lines } = await start({ rows: 10, days: 0 }, 1000);
    launch();
    expect(await eventually(count, (rows) => rows <= 10)).to.equal(10);
    await add(1001, 1005);
    expect(await eventually(count, (rows) => rows <= 10)).to.equal(10);
    expect(lines).to.deep.equal([]);
  });

  it('ends at once when it is stopped, in the midst of a step, too, and says nothing of it', async () => {
    const { launch, sql, count, lines } = await start({ rows: 1, days: 0 }, 100);
    await sql('BEGIN');
    await sql('LOCK TABLE tasks');
    const rounds = launch();
    const waiting = async () =>
      (await sql("SELECT FROM pg_locks WHERE NOT granted AND relation = 'tasks'::regclass")).length;
    await eventually(waiting, (locks) => locks === 1);
    await rounds.stop();
    await rounds.stop();
    await eventually(waiting, (locks) => locks === 0);
    await sql('COMMIT');
    expect(await count()).to.equal(100);
    expect(lines).to.deep.equal([]);
  });

  it('says in one line what failed, and when it tries again', async () => {
    const { launch, sql, lines, logged } = await start({ rows: 1, days: 0 }, 100);
    await sql('DROP TABLE tasks');
    const rounds = launch();
    const line = await logged(({ msg }) => msg === 'old rows cannot be deleted: retrying');
    expect(line).to.include({ reason: 'relation "tasks" does not exist', delayMs: 15_000 });
    await rounds.stop();
    expect(lines).to.have.lengthOf(1);
  });
});
