import { createServer } from 'node:net';
import { expect } from 'chai';
import { type Query, tryLock } from '../../../db/postgres/database.ts';
import { DatabaseUnavailable, ValueRefused } from '../../../db/task-store.ts';
import { errorOf } from '../../store/stage.ts';
import { listenLocally } from '../../support/free-port.ts';
import { describeWithPostgres, emptySchema, openDatabase } from '../../support/servers.ts';
import { severable } from '../../support/severable.ts';
import { until } from '../../support/until.ts';

/** Encodes an authentication request of the PostgreSQL protocol: its length and kind, as numbers of 32 bits, and data. */
const authentication = (kind: number, data: string) =>
  `R\0\0\0${String.fromCharCode(8 + data.length)}\0\0\0${String.fromCharCode(kind)}${data}`;

describeWithPostgres('PostgresDatabase', () => {
  it('tells a statement that fails, or takes too long, from a server that cannot be had', async () => {
    const { url, sql } = await emptySchema();
    const database = openDatabase(url, { timeLimitMs: 1000 });
    for (const [statement, message] of [
      ['SELECT nothing', 'column "nothing" does not exist'],
      ['SELECT pg_sleep(10)', 'canceling statement due to statement timeout'],
    ] as const) {
      const error = await errorOf(() => database.query(statement, [], 60_000));
      expect(error).to.not.be.instanceOf(DatabaseUnavailable);
      expect(error.message).to.equal(message);
    }
    const ended = await errorOf(() => database.query('SELECT pg_terminate_backend(pg_backend_pid())'));
    expect(ended).to.be.instanceOf(DatabaseUnavailable);
    await sql('BEGIN; CREATE TABLE words (word text)');
    const { name, message } = await errorOf(() => database.query('CREATE TABLE words (word text)', [], 60_000));
    expect(`${name}: ${message}`).to.match(/^DatabaseUnavailable: .* is busy: .* lock timeout$/);
    await sql('ROLLBACK');
  });

  it('times out on a silent server, reports lost idle connections, and recovers from both', async () => {
    const way = await severable((await emptySchema()).url);
    const lost: string[] = [];
    const database = openDatabase(way.url, { timeLimitMs: 1000, onLost: (reason) => lost.push(reason) });
    await database.probe();
    way.stall();
    const error = await errorOf(() => database.probe());
    expect(error).to.be.instanceOf(DatabaseUnavailable);
    const { host } = new URL(way.url);
    const reason = 'Query read timeout: start it, or fix DATABASE_URL';
    expect(error.message).to.equal(`cannot reach PostgreSQL at ${host}/postgres: ${reason}`);
    expect(await errorOf(() => database.probe())).to.be.instanceOf(DatabaseUnavailable);
    way.mend();
    await database.probe();
    lost.length = 0;
    way.cut();
    await until(() => lost.length === 1);
    way.mend();
    await database.probe();
  });

  it('reports a missing password at once, and closes the connection', async () => {
    const closed = Promise.withResolvers<void>();
    const server = createServer((socket) => {
      socket.on('error', () => {}).once('close', () => closed.resolve());
      // The second answer is only parsed if there is a password.
      const answers = [authentication(10, 'SCRAM-SHA-256\0\0'), authentication(11, 'r=,s=,i=4096')];
      socket.on('data', () => socket.write(answers.shift() ?? ''));
    });
    const port = await listenLocally(server);
    const database = openDatabase(`postgres://spec@127.0.0.1:${port}/test`);
    expect((await errorOf(() => database.probe())).message).to.equal(
      `PostgreSQL at 127.0.0.1:${port}/test refuses the connection: a password is required: ` +
        'fix DATABASE_URL, for example postgres://user:password@127.0.0.1:5432/database',
    );
    await closed.promise;
  });

  it('lets no query wait where too many do', async () => {
    const { url } = await emptySchema();
    const database = openDatabase(url, { connections: 1 });
    const queries = Array.from({ length: 1002 }, () => database.query('SELECT 1 AS one'));
    const [first, ...others] = await Promise.allSettled(queries);
    expect(first).to.deep.include({ value: [{ one: 1 }] });
    // On a slow machine, the last of the waiting queries fail because they have waited too long.
    const refused = others.map((each) => each.status === 'rejected' && /too many/.test(each.reason.message));
    expect([refused.indexOf(true), refused.length]).to.deep.equal([1000, 1001]);
  });

  it('gives back nothing of a session that failed: the lock goes with the connection', async () => {
    const { url, sql } = await emptySchema();
    const database = openDatabase(url);
    await errorOf(() =>
      database.session(async (query) => {
        await query('SELECT pg_advisory_lock(7)');
        throw new Error('no');
      }),
    );
    // Another connection, because one may take its own lock again.
    await until(async () => (await sql('SELECT pg_try_advisory_lock(7) AS free'))[0]?.free === true);
  });

  it('holds a lock from the first attempt to the end of the transaction', async () => {
    const { url } = await emptySchema();
    const [one, other] = [openDatabase(url), openDatabase(url)];
    const attempt = () => other.transaction((query) => tryLock(query, 'retention'));
    const during = await one.transaction(async (query) => [await tryLock(query, 'retention'), await attempt()]);
    expect([...during, await attempt()]).to.deep.equal([true, false, true]);
  });

  it('cuts what still runs when it is closed', async () => {
    const { url, sql } = await emptySchema();
    const database = openDatabase(url);
    await database.probe();
    const running = errorOf(() => database.query('SELECT pg_sleep(5)'));
    const active = "SELECT 1 FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(5)' AND state = 'active'";
    await until(async () => (await sql(active)).length > 0);
    await database.close();
    expect(await running).to.be.instanceOf(DatabaseUnavailable);
  });

  it('writes all of a batch or transaction or nothing, and returns the rows of each statement of a batch', async () => {
    const { url, sql } = await emptySchema();
    // A repeated word is only refused at the commit.
    await sql('CREATE TABLE words (word text NOT NULL UNIQUE DEFERRABLE INITIALLY DEFERRED)');
    const database = openDatabase(url);
    const insert = (word: string | null) => ['INSERT INTO words VALUES ($1) RETURNING word', [word]] as const;
    for (const statements of [['a', null, 'b'].map(insert), ['a', 'a'].map(insert)]) {
      const run = (query: Query) => Promise.all(statements.map(([text, values]) => query(text, values)));
      for (const write of [() => database.batch(statements), () => database.transaction(run)])
        expect(await errorOf(write)).to.be.instanceOf(ValueRefused);
    }
    await database.transaction((query) => query(...insert('a')), { isKept: () => false });
    expect(await sql('SELECT * FROM words')).to.deep.equal([]);
    expect(await database.batch([insert('c'), insert('d')])).to.deep.equal([[{ word: 'c' }], [{ word: 'd' }]]);
  });

  it('uses indexes whatever the size of a table, and ends transactions that wait for their client', async () => {
    const { url, sql } = await emptySchema();
    const database = openDatabase(url, { timeLimitMs: 1000 });
    expect(await database.query('SHOW enable_seqscan')).to.deep.equal([{ enable_seqscan: 'off' }]);
    const waits = database.transaction(async (query) => {
      const backend = await query<{ pid: number }>('SELECT pg_backend_pid() AS pid');
      const found = () => sql('SELECT 1 FROM pg_stat_activity WHERE pid = $1', [backend[0]?.pid]);
      await until(async () => (await found()).length === 0);
      await query('SELECT 1');
    });
    expect(await errorOf(() => waits)).to.be.instanceOf(DatabaseUnavailable);
  });
});
