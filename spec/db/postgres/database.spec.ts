import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { expect } from 'chai';
import { PostgresDatabase, type PostgresOptions } from '../../../db/postgres/database.ts';
import { PostgresTasks } from '../../../db/postgres/tasks.ts';
import { DatabaseUnavailable } from '../../../db/sqlite/database.ts';
import { afterTest } from '../../support/cleanup.ts';
import { startPostgres } from '../../support/postgres-server.ts';
import { describeWithPostgres, emptySchema, migratedSchema } from '../../support/servers.ts';
import { eventually, until } from '../../support/until.ts';
import { completed, outcome } from '../task-store.ts';

function open(url: string, options: Partial<PostgresOptions> = {}): PostgresDatabase {
  const database = new PostgresDatabase(url, { connections: 2, timeLimitMs: 5000, ...options });
  afterTest(() => database.close());
  return database;
}

const one = { text: 'SELECT 1 AS one' };

/** Encodes an authentication request of the PostgreSQL protocol. */
function authentication(kind: number, data: string): Buffer {
  const message = Buffer.alloc(9 + data.length);
  message.write('R');
  message.writeInt32BE(8 + data.length, 1);
  message.writeInt32BE(kind, 5);
  message.write(data, 9);
  return message;
}

/** Starts a proxy to a server. A test can cut its connections or stop forwarding. */
async function proxyTo(url: string) {
  const { hostname, port } = new URL(url);
  const sockets = new Set<Socket>();
  const state = { silent: false, cutOn: undefined as string | undefined };
  const keep = (socket: Socket) => {
    sockets.add(socket.on('error', () => {}));
    socket.on('close', () => sockets.delete(socket));
  };
  const cut = () => {
    for (const socket of sockets) socket.destroy();
  };
  const { connect } = await import('node:net');
  const server = createServer((client) => {
    const upstream = connect(Number(port), hostname);
    keep(client);
    keep(upstream);
    client.on('data', (data) => {
      if (state.silent) return;
      upstream.write(data);
      if (state.cutOn !== undefined && data.includes(state.cutOn)) cut();
    });
    upstream.on('data', (data) => state.silent || client.write(data));
    client.on('close', () => upstream.destroy());
    upstream.on('close', () => client.destroy());
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  afterTest(async () => {
    cut();
    server.close();
    await once(server, 'close');
  });
  const address = Object.assign(new URL(url), { port: (server.address() as { port: number }).port });
  return { url: address.href, state, cut };
}

describeWithPostgres('PostgresDatabase', () => {
  it('gives numbers as numbers, and rows as objects', async () => {
    const { url } = await emptySchema();
    const text = 'SELECT 1::bigint AS big, 2 AS small, true AS yes, NULL AS nothing, $1::text AS text';
    expect(await open(url).query({ text }, ['ü'])).to.deep.equal([
      { big: 1, small: 2, yes: true, nothing: null, text: 'ü' },
    ]);
  });

  it('writes all of a transaction or nothing', async () => {
    const { url, sql } = await emptySchema();
    await sql('CREATE TABLE words (word text)');
    const database = open(url);
    const failed = await outcome(() =>
      database.transaction(async (query) => {
        await query({ text: "INSERT INTO words VALUES ('a')" });
        throw new Error('no');
      }),
    );
    expect(failed).to.have.property('message', 'no');
    expect(await sql('SELECT * FROM words')).to.deep.equal([]);
    const made = await database.transaction(async (query) => {
      await query({ text: "INSERT INTO words VALUES ('b')" });
      return 'made';
    });
    expect(made).to.equal('made');
    expect(await sql('SELECT * FROM words')).to.deep.equal([{ word: 'b' }]);
  });

  it('tells a statement that fails, or takes too long, from a server that cannot be had', async () => {
    const { url } = await emptySchema();
    const database = open(url, { timeLimitMs: 1000 });
    const failed = await outcome(() => database.query({ text: 'SELECT nothing' }));
    expect(failed).to.be.instanceOf(Error).and.not.instanceOf(DatabaseUnavailable);
    const late = await outcome(() => database.query({ text: 'SELECT pg_sleep(10)' }));
    expect(late).to.be.instanceOf(Error).and.not.instanceOf(DatabaseUnavailable);
    expect(late).to.have.property('message', 'canceling statement due to statement timeout');
    await database.close();
    expect(await outcome(() => database.probe())).to.be.instanceOf(DatabaseUnavailable);
    expect(await outcome(() => database.close())).to.equal(undefined);
  });

  it('times out on a silent server, and recovers when it responds again', async () => {
    const proxy = await proxyTo((await emptySchema()).url);
    const database = open(proxy.url, { timeLimitMs: 1000 });
    await database.probe();
    proxy.state.silent = true;
    expect(await outcome(() => database.probe()))
      .to.be.instanceOf(DatabaseUnavailable)
      .with.property('message')
      .that.matches(
        /^cannot reach PostgreSQL at 127\.0\.0\.1:\d+\/postgres: Query read timeout: start it, or fix DATABASE_URL$/,
      );
    expect(await outcome(() => database.probe())).to.be.instanceOf(DatabaseUnavailable);
    proxy.state.silent = false;
    expect(await database.query(one)).to.deep.equal([{ one: 1 }]);
  });

  it('reports a missing password at once, and closes the connection', async () => {
    const closed = Promise.withResolvers<void>();
    const server = createServer((socket) => {
      socket.on('error', () => {}).once('close', () => closed.resolve());
      // The second answer is only parsed if there is a password.
      const answers = [authentication(10, 'SCRAM-SHA-256\0\0'), authentication(11, 'r=,s=,i=4096')];
      socket.on('data', () => socket.write(answers.shift() ?? ''));
    }).listen(0, '127.0.0.1');
    afterTest(() => server.close());
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
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

  it('logs lost idle connections, and opens others', async () => {
    const { url } = await emptySchema();
    const lost: string[] = [];
    const database = open(url, { onLost: (reason) => lost.push(reason) });
    const { cut, url: through } = await proxyTo(url);
    const cuttable = open(through, { onLost: (reason) => lost.push(reason) });
    await cuttable.probe();
    cut();
    await until(() => lost.length === 1);
    expect(await cuttable.query(one)).to.deep.equal([{ one: 1 }]);
    expect(await database.query(one)).to.deep.equal([{ one: 1 }]);
  });

  it('gives back nothing of a session that failed: the lock goes with the connection', async () => {
    const { url } = await emptySchema();
    const database = open(url);
    await outcome(() =>
      database.session(async (query) => {
        await query({ text: 'SELECT pg_advisory_lock(7)' });
        throw new Error('no');
      }),
    );
    const [lock] = await database.query({ text: 'SELECT pg_advisory_xact_lock(7) IS NULL AS free' });
    expect(lock).to.have.property('free');
  });

  it('cuts what still runs when it is closed', async () => {
    const { url, sql } = await emptySchema();
    const database = open(url);
    await database.probe();
    const running = outcome(() => database.query({ text: 'SELECT pg_sleep(5)' }));
    await eventually(
      () => sql("SELECT 1 FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(5)' AND state = 'active'"),
      (active) => active.length > 0,
    );
    await database.close();
    expect(await running).to.be.instanceOf(DatabaseUnavailable);
  });

  it('rejects a batch whose connection is cut halfway, and stores its rows on a retry', async () => {
    const { url, sql } = await migratedSchema();
    const proxy = await proxyTo(url);
    const tasks = new PostgresTasks(open(proxy.url, { connections: 1 }));
    const rows = Array.from({ length: 5 }, (_, n) => completed(`t${n}`, n, { payload: `marked ${n}` }));
    proxy.state.cutOn = 'marked 3';
    const failures = await tasks.storeAll(rows);
    expect(failures).to.have.lengthOf(5);
    for (const failure of failures) {
      expect(failure).to.have.property('ofRow', false);
      expect(failure?.error).to.be.instanceOf(DatabaseUnavailable);
    }
    proxy.state.cutOn = undefined;
    expect(await tasks.storeAll(rows)).to.deep.equal(rows.map(() => undefined));
    expect(await sql('SELECT count(*) AS n FROM tasks')).to.deep.equal([{ n: 5 }]);
  });

  it('recovers automatically when the server was restarted, however it was stopped', async () => {
    const server = await startPostgres();
    afterTest(() => server.remove());
    const { url } = await migratedSchema(server);
    const tasks = new PostgresTasks(open(url));
    for (const how of ['fast', 'immediate'] as const) {
      expect(await tasks.storeAll([completed(how, 1)])).to.deep.equal([undefined]);
      await server.stop(how);
      expect(await outcome(() => tasks.find(how))).to.be.instanceOf(DatabaseUnavailable);
      const [failure] = await tasks.storeAll([completed('lost', 1), completed('lost too', 1)]);
      expect(failure).to.have.property('ofRow', false);
      await server.start();
      expect(await tasks.find(how)).to.include({ id: how });
    }
    expect(await tasks.list()).to.have.lengthOf(2);
  });
});
