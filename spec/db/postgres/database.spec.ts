import { createServer } from 'node:net';
import { expect } from 'chai';
import { PostgresDatabase, type PostgresOptions } from '../../../db/postgres/database.ts';
import { DatabaseUnavailable, ValueRefused } from '../../../db/task-store.ts';
import { afterTest } from '../../support/cleanup.ts';
import { listenLocally } from '../../support/free-port.ts';
import { describeWithPostgres, emptySchema } from '../../support/servers.ts';
import { severable } from '../../support/severable.ts';
import { eventually, until } from '../../support/until.ts';

function open(url: string, options: Partial<PostgresOptions> = {}): PostgresDatabase {
  const database = new PostgresDatabase(url, { connections: 2, timeLimitMs: 5000, ...options });
  afterTest(() => database.close());
  return database;
}

/** Returns the error of a call, or undefined. */
const outcome = (call: () => Promise<unknown>) =>
  call()
    .then(() => {})
    .catch((error: unknown) => error);

const one = 'SELECT 1 AS one';

/** Encodes an authentication request of the PostgreSQL protocol. */
function authentication(kind: number, data: string): Buffer {
  const message = Buffer.alloc(9 + data.length);
  message.write('R');
  message.writeInt32BE(8 + data.length, 1);
  message.writeInt32BE(kind, 5);
  message.write(data, 9);
  return message;
}

describeWithPostgres('PostgresDatabase', () => {
  it('tells a statement that fails, or takes too long, from a server that cannot be had', async () => {
    const { url, sql } = await emptySchema();
    const database = open(url, { timeLimitMs: 1000 });
    const failed = await outcome(() => database.query('SELECT nothing'));
    expect(failed).to.be.instanceOf(Error).and.not.instanceOf(DatabaseUnavailable);
    const late = await outcome(() => database.query('SELECT pg_sleep(10)'));
    expect(late).to.be.instanceOf(Error).and.not.instanceOf(DatabaseUnavailable);
    expect(late).to.have.property('message', 'canceling statement due to statement timeout');
    await sql('BEGIN; CREATE TABLE words (word text)');
    const locked = await outcome(() => database.query('CREATE TABLE words (word text)'));
    expect(locked)
      .to.be.instanceOf(DatabaseUnavailable)
      .with.property('message')
      .match(/is busy: .* lock timeout$/);
    await sql('ROLLBACK');
  });

  it('times out on a silent server, reports lost idle connections, and recovers from both', async () => {
    const way = await severable((await emptySchema()).url);
    const lost: string[] = [];
    const database = open(way.url, { timeLimitMs: 1000, onLost: (reason) => lost.push(reason) });
    await database.probe();
    way.stall();
    expect(await outcome(() => database.probe()))
      .to.be.instanceOf(DatabaseUnavailable)
      .with.property('message')
      .that.matches(
        /^cannot reach PostgreSQL at 127\.0\.0\.1:\d+\/postgres: Query read timeout: start it, or fix DATABASE_URL$/,
      );
    expect(await outcome(() => database.probe())).to.be.instanceOf(DatabaseUnavailable);
    way.mend();
    expect(await database.query(one)).to.deep.equal([{ one: 1 }]);
    lost.length = 0;
    way.cut();
    await until(() => lost.length === 1);
    way.mend();
    expect(await database.query(one)).to.deep.equal([{ one: 1 }]);
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
    const database = open(`postgres://spec@127.0.0.1:${port}/test`);
    expect(await outcome(() => database.probe())).to.have.property(
      'message',
      `PostgreSQL at 127.0.0.1:${port}/test refuses the connection: a password is required: ` +
        'fix DATABASE_URL, for example postgres://user:password@127.0.0.1:5432/database',
    );
    await closed.promise;
  });

  it('lets no query wait where too many do', async () => {
    const { url } = await emptySchema();
    const database = open(url, { connections: 1 });
    const errors = await Promise.all(Array.from({ length: 1002 }, () => outcome(() => database.query(one))));
    // On a slow machine, the last of the waiting queries fail because they have waited too long.
    const refused = errors.map((error) => error instanceof DatabaseUnavailable && /too many/.test(error.message));
    expect(refused.lastIndexOf(false)).to.equal(1000);
    expect(refused[1001]).to.equal(true);
    expect(errors[0]).to.equal(undefined);
  });

  it('gives back nothing of a session that failed: the lock goes with the connection', async () => {
    const { url } = await emptySchema();
    const database = open(url);
    await outcome(() =>
      database.session(async (query) => {
        await query('SELECT pg_advisory_lock(7)');
        throw new Error('no');
      }),
    );
    const [lock] = await database.query('SELECT pg_advisory_xact_lock(7) IS NULL AS free');
    expect(lock).to.have.property('free');
  });

  it('cuts what still runs when it is closed', async () => {
    const { url, sql } = await emptySchema();
    const database = open(url);
    await database.probe();
    const running = outcome(() => database.query('SELECT pg_sleep(5)'));
    await eventually(
      () => sql("SELECT 1 FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(5)' AND state = 'active'"),
      (active) => active.length > 0,
    );
    await database.close();
    expect(await running).to.be.instanceOf(DatabaseUnavailable);
  });

  it('writes all of a batch or nothing, and returns the rows of each statement', async () => {
    const { url, sql } = await emptySchema();
    await sql('CREATE TABLE words (word text NOT NULL)');
    const database = open(url);
    const insert = (word: string | null) => ['INSERT INTO words VALUES ($1) RETURNING word', [word]] as const;
    expect(await outcome(() => database.batch([insert('a'), insert(null), insert('b')]))).to.be.instanceOf(
      ValueRefused,
    );
    expect(await sql('SELECT * FROM words')).to.deep.equal([]);
    expect(await database.batch([insert('c'), insert('d')])).to.deep.equal([[{ word: 'c' }], [{ word: 'd' }]]);
    expect(await database.batch([insert('e')])).to.deep.equal([[{ word: 'e' }]]);
  });

  it('uses indexes whatever the size of a table, and ends transactions that wait for their client', async () => {
    const { url, sql } = await emptySchema();
    const database = open(url, { timeLimitMs: 1000 });
    expect(await database.query('SHOW enable_seqscan')).to.deep.equal([{ enable_seqscan: 'off' }]);
    const waits = database.transaction(async (query) => {
      const backend = await query<{ pid: number }>('SELECT pg_backend_pid() AS pid');
      await eventually(
        () => sql('SELECT 1 FROM pg_stat_activity WHERE pid = $1', [backend[0]?.pid]),
        (found) => found.length === 0,
      );
      await query('SELECT 1');
    });
    expect(await outcome(() => waits)).to.be.instanceOf(Error);
  });
});
