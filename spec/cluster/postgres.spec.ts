import { expect } from 'chai';
import { DatabaseUnavailable } from '../../db/sqlite/database.ts';
import { openPostgres } from '../../main/cluster/postgres.ts';
import { defaults } from '../../main/config.ts';
import { outcome } from '../db/task-store.ts';
import { afterTest } from '../support/cleanup.ts';
import { captureLog } from '../support/log.ts';
import { startPostgres } from '../support/postgres-server.ts';
import { describeWithPostgres, emptySchema } from '../support/servers.ts';
import { eventually } from '../support/until.ts';

async function open(databaseUrl: string, retention = defaults.retention) {
  const captured = captureLog();
  const engine = await openPostgres(databaseUrl, retention, captured.log);
  afterTest(() => engine.close());
  return { engine, ...captured };
}

describeWithPostgres('openPostgres', () => {
  it('makes the tables, and gives all that is kept in them', async () => {
    const { url: databaseUrl, sql } = await emptySchema();
    const { engine } = await open(databaseUrl);
    const { apiKey } = await engine.apiKeys.ensureDemoUser(1);
    expect(await engine.apiKeys.findOwner(apiKey)).to.deep.equal({ user_id: 'demo', role: 'user' });
    await sql("INSERT INTO tasks (id, payload, created_at) VALUES ('a', '{}', 1)");
    expect(await engine.tasks.find('a')).to.include({ id: 'a', payload: '{}', created_at: 1 });
    expect(engine.taskStoreLocation).to.deep.equal({ databaseUrl });
    expect(engine.startRetention(new SharedArrayBuffer(4))).to.equal(undefined);
    for (const check of Object.values(engine.checks)) expect(await check()).to.equal(undefined);
  });

  it('deletes old rows where a limit is set', async () => {
    const { url: databaseUrl, sql } = await emptySchema();
    const { engine } = await open(databaseUrl, { rows: 3, days: 0 });
    await sql("INSERT INTO tasks (id, payload, created_at) SELECT n::text, '{}', n FROM generate_series(1, 10) n");
    const retention = engine.startRetention(new SharedArrayBuffer(4));
    afterTest(() => retention?.stop());
    await eventually(
      () => engine.tasks.list({}),
      (rows) => rows.length <= 3,
    );
    expect((await engine.tasks.list({})).map(({ id }) => id)).to.deep.equal(['10', '9', '8']);
  });

  it('does not open where there is no server', async () => {
    const databaseUrl = 'postgres://spec:secret@127.0.0.1:1/test';
    const error = await outcome(() => open(databaseUrl));
    expect(error)
      .to.have.property('message')
      .that.matches(/^cannot reach PostgreSQL at 127\.0\.0\.1:1\/test: /);
  });

  it('reports a stopped server in its checks and errors, and recovers when it is back', async () => {
    const server = await startPostgres();
    afterTest(() => server.remove());
    const { url: databaseUrl } = await emptySchema(server);
    const { engine, logged } = await open(databaseUrl);
    await engine.checks.tasks_database?.();
    await server.stop('immediate');
    await logged(({ msg }) => msg === 'a connection to PostgreSQL was lost');
    for (const check of Object.values(engine.checks))
      expect(await outcome(check)).to.be.instanceOf(DatabaseUnavailable);
    expect(await outcome(() => engine.apiKeys.findOwner('k'))).to.be.instanceOf(DatabaseUnavailable);
    expect(await outcome(() => engine.tasks.list({}))).to.be.instanceOf(DatabaseUnavailable);
    await server.start();
    for (const check of Object.values(engine.checks)) expect(await check()).to.equal(undefined);
    expect(await engine.tasks.list({})).to.deep.equal([]);
  });
});
