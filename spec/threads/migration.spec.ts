import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { runMigration } from '../../main/threads/migration.ts';
import { temporaryFolder } from '../support/cleanup.ts';
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

  it('has ended when it fails, because the caller then unlocks the folder', async () => {
    const watched = watchThreads();
    const error = await runMigration({ dataDir: '/dev/null' }).catch((failure) => failure);
    expect(error.message).to.include('cannot migrate /dev/null/auth.db');
    expect([watched.threads.length, watched.ended]).to.deep.equal([1, 1]);
  });
});
