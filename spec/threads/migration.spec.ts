import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { mock } from 'node:test';
import { expect } from 'chai';
import { runMigration } from '../../main/threads/migration.ts';
import { afterTest, temporaryFolder } from '../support/cleanup.ts';
import { describeWithPostgres, emptySchema } from '../support/servers.ts';

describe('runMigration', () => {
  it('makes the databases in a thread of its own, which ends', async () => {
    const folder = await temporaryFolder();
    const threads: unknown[] = [];
    const remember = (thread: unknown) => threads.push(thread);
    process.on('worker', remember);
    await runMigration({ dataDir: folder }).finally(() => process.off('worker', remember));
    expect(threads).to.have.length(1);
    for (const name of ['auth.db', 'tasks.db']) expect(existsSync(join(folder, name)), name).to.equal(true);
  });

  it('may be run again', async () => {
    const folder = await temporaryFolder();
    const created = await runMigration({ dataDir: folder });
    const files = ['auth.db', 'tasks.db'];
    expect(created).to.deep.equal(files.map((file) => ({ file: join(folder, file), wasEmpty: false })));
    expect(await runMigration({ dataDir: folder })).to.deep.equal([]);
  });

  it('says in one line why it failed', async () => {
    const folder = await temporaryFolder();
    const path = join(folder, 'tasks.db');
    writeFileSync(path, 'garbage '.repeat(1000));
    const error = await runMigration({ dataDir: folder }).catch((error) => error);
    expect(error).to.be.instanceOf(Error);
    const remedy = 'restore it from a backup, or move it and its -wal file away to start with an empty one';
    expect(error.message).to.equal(`cannot migrate ${path}: file is not a database: ${remedy}`);
  });

  it('has ended its thread when it gives up, because the caller then unlocks the folder', async () => {
    const folder = await temporaryFolder();
    let hasEnded = false;
    process.once('worker', (thread) =>
      thread.once('exit', () => {
        hasEnded = true;
      }),
    );
    mock.timers.enable({ apis: ['setTimeout'] });
    afterTest(() => mock.timers.reset());
    const migrated = runMigration({ dataDir: folder }).catch((error) => error);
    mock.timers.tick(60_000);
    expect((await migrated).message).to.equal('the migration did not start within 60 s');
    expect(hasEnded).to.equal(true);
  });

  it('refuses databases of a newer version', async () => {
    const folder = await temporaryFolder();
    await runMigration({ dataDir: folder });
    const database = new DatabaseSync(join(folder, 'auth.db'));
    database.exec('PRAGMA user_version = 99');
    database.close();
    const error = await runMigration({ dataDir: folder }).catch((error) => error);
    expect(error.message).to.match(/^cannot migrate .*auth\.db: its schema has version 99, .*$/);
  });
});

describeWithPostgres('runMigration of PostgreSQL', () => {
  it('makes the tables, by ten threads at once, too', async () => {
    const { url: databaseUrl, sql } = await emptySchema();
    await Promise.all(Array.from({ length: 10 }, () => runMigration({ databaseUrl })));
    expect(await sql('SELECT * FROM tasks')).to.deep.equal([]);
  });

  it('says in one line why it failed', async () => {
    const error = await runMigration({ databaseUrl: 'postgres://spec:secret@127.0.0.1:1/test' }).catch(
      (error) => error,
    );
    expect(error.message).to.match(
      /^cannot reach PostgreSQL at 127\.0\.0\.1:1\/test: .*: start it, or fix DATABASE_URL$/,
    );
  });
});
