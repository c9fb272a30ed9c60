import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { mock } from 'node:test';
import type { Worker } from 'node:worker_threads';
import { expect } from 'chai';
import { runMigration } from '../../main/threads/migration.ts';
import { afterTest, temporaryFolder } from '../support/cleanup.ts';

/** Returns the number of threads that have started, and the number of threads that have ended. */
function countThreads() {
  const counts = { started: 0, ended: 0 };
  const count = (thread: Worker) => {
    counts.started += 1;
    thread.once('exit', () => {
      counts.ended += 1;
    });
  };
  process.on('worker', count);
  afterTest(() => process.off('worker', count));
  return counts;
}

describe('the migration thread', () => {
  it('creates the databases, says which, and ends', async () => {
    const dataDir = await temporaryFolder();
    const threads = countThreads();
    const files = ['auth.db', 'tasks.db'].map((name) => join(dataDir, name));
    expect(await runMigration({ dataDir })).to.deep.equal(files.map((file) => ({ file, wasEmpty: false })));
    expect(files.every(existsSync)).to.equal(true);
    expect(await runMigration({ dataDir })).to.deep.equal([]);
    expect(threads).to.deep.equal({ started: 2, ended: 2 });
  });

  it('has ended when it gives up, because the caller then unlocks the folder', async () => {
    const dataDir = await temporaryFolder();
    const threads = countThreads();
    mock.timers.enable({ apis: ['setTimeout'] });
    afterTest(() => mock.timers.reset());
    const migrated = runMigration({ dataDir }).catch((error) => error);
    mock.timers.tick(60_000);
    expect((await migrated).message).to.equal('the migration did not start within 60 s');
    expect(threads).to.deep.equal({ started: 1, ended: 1 });
  });
});
