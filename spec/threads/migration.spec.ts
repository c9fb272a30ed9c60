import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { mock } from 'node:test';
import { expect } from 'chai';
import { runMigration } from '../../main/threads/migration.ts';
import { afterTest, temporaryFolder } from '../support/cleanup.ts';
import { watchThreads } from '../support/threads.ts';

describe('the migration thread', () => {
  it('creates the databases, says which, and ends', async () => {
    const dataDir = await temporaryFolder();
    const watched = watchThreads();
    const files = ['auth.db', 'tasks.db'].map((name) => join(dataDir, name));
    expect(await runMigration({ dataDir })).to.deep.equal(files.map((file) => ({ file, wasEmpty: false })));
    expect(files.every(existsSync)).to.equal(true);
    expect(await runMigration({ dataDir })).to.deep.equal([]);
    expect([watched.threads.length, watched.ended]).to.deep.equal([2, 2]);
  });

  it('has ended when it gives up, because the caller then unlocks the folder', async () => {
    const dataDir = await temporaryFolder();
    const watched = watchThreads();
    mock.timers.enable({ apis: ['setTimeout'] });
    afterTest(() => mock.timers.reset());
    const migrated = runMigration({ dataDir }).catch((error) => error);
    mock.timers.tick(60_000);
    expect((await migrated).message).to.equal('the migration did not start within 60 s');
    expect([watched.threads.length, watched.ended]).to.deep.equal([1, 1]);
  });
});
