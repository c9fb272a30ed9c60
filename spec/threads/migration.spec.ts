import { expect } from 'chai';
import { runMigration } from '../../main/threads/one-shot-threads.ts';
import { watchThreads } from '../support/threads.ts';

describe('the migration thread', () => {
  it('has ended when it fails, because the caller then unlocks the folder', async () => {
    const watched = watchThreads();
    const error = await runMigration({ dataDir: '/dev/null' }).catch((failure) => failure);
    expect(error.message).to.include('cannot migrate /dev/null/auth.db');
    expect([watched.threads.length, watched.ended]).to.deep.equal([1, 1]);
  });
});
