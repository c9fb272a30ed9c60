import { expect } from 'chai';
import { RetentionRounds } from '../../main/tasks/retention-rounds.ts';
import { afterTest } from '../support/cleanup.ts';
import { captureLog } from '../support/log.ts';
import { describeWithPostgres, migratedSchema } from '../support/servers.ts';

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
    const rounds = new RetentionRounds(url, limits, log);
    afterTest(() => rounds.stop());
    return rounds;
  };
  const count = async () => (await sql<{ n: number }>('SELECT count(*) AS n FROM tasks'))[0]?.n as number;
  return { url, sql, add, launch, count, lines, logged };
}

describeWithPostgres('RetentionRounds', () => {
  it('deletes what is too much, and what becomes too much later', async () => {
    const { add, launch, count, lines } = await start({ rows: 10, days: 0 }, 1000);
    launch();
    while ((await count()) > 10);
    await add(1001, 1005);
    while ((await count()) > 10);
    expect(await count()).to.equal(10);
    expect(lines).to.deep.equal([]);
  });

  it('ends at once when it is stopped, in the midst of a step, too, and says nothing of it', async () => {
    const { launch, sql, count, lines } = await start({ rows: 1, days: 0 }, 100);
    await sql('BEGIN');
    await sql('LOCK TABLE tasks');
    const rounds = launch();
    const waiting = "SELECT count(*) AS n FROM pg_locks WHERE NOT granted AND relation = 'tasks'::regclass";
    while ((await sql<{ n: number }>(waiting))[0]?.n === 0);
    await rounds.stop();
    await rounds.stop();
    await sql('COMMIT');
    expect(await count()).to.be.within(1, 100);
    expect(lines).to.deep.equal([]);
  });

  it('says in one line what failed, and tries again later', async () => {
    const { launch, sql, lines, logged } = await start({ rows: 1, days: 0 }, 100);
    await sql('DROP TABLE tasks');
    const rounds = launch();
    const { reason } = await logged(({ msg }) => msg === 'old rows cannot be deleted: tried again');
    expect(reason).to.equal('relation "tasks" does not exist');
    await rounds.stop();
    expect(lines).to.have.lengthOf(1);
  });
});
