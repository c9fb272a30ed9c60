import { copyFileSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { expect } from 'chai';
import { ApiKeys, openAuthDatabase } from '../../../db/sqlite/api-keys.ts';
import type { Database } from '../../../db/sqlite/database.ts';
import { migrate } from '../../../db/sqlite/migrate.ts';
import { DatabaseUnavailable } from '../../../db/task-store.ts';
import { afterTest, temporaryFolder } from '../../support/cleanup.ts';
import { describeApiKeyStore } from '../api-key-store.ts';

async function fresh(): Promise<{ keys: ApiKeys; database: Database; beside: DatabaseSync; file: string }> {
  const folder = await temporaryFolder();
  migrate(folder);
  const file = join(folder, 'auth.db');
  const database = openAuthDatabase(file, 50);
  afterTest(() => database.close());
  const beside = new DatabaseSync(file);
  afterTest(() => beside.close());
  return { keys: new ApiKeys(database), database, beside, file };
}

const insert = 'INSERT INTO api_keys (api_key, user_id, role, created_at) VALUES (?, ?, ?, ?)';

describe('ApiKeys', () => {
  describeApiKeyStore(async () => {
    const { keys, beside, database } = await fresh();
    return {
      keys,
      async insert(...row) {
        beside.prepare(insert).run(...row);
      },
      all: async () => beside.prepare('SELECT * FROM api_keys ORDER BY id').all(),
      async update(sql) {
        beside.exec(sql);
      },
      async close() {
        database.close();
      },
    };
  });

  it('syncs each change', async () => {
    const { database } = await fresh();
    expect(database.get('PRAGMA synchronous')).to.deep.equal({ synchronous: 2 });
  });

  it('remembers no key of a table that was dropped, or of a file that was exchanged', async () => {
    const { keys, beside, file } = await fresh();
    beside.prepare(insert).run('k', 'alice', 'user', 1);
    expect(keys.findOwner('k')).to.not.equal(undefined);
    beside.exec('ALTER TABLE api_keys RENAME TO away');
    expect(() => keys.findOwner('k')).to.throw('no such table');
    beside.exec('ALTER TABLE away RENAME TO api_keys');
    expect(keys.findOwner('k')).to.not.equal(undefined);

    const other = await fresh();
    other.beside.prepare(insert).run('other', 'bob', 'user', 1);
    other.beside.exec('PRAGMA wal_checkpoint(TRUNCATE)');
    renameSync(file, `${file}.away`);
    expect(() => keys.findOwner('k')).to.throw(DatabaseUnavailable);
    // Put another database into the file's place. Its data version may happen to be the same.
    for (const suffix of ['-wal', '-shm']) rmSync(file + suffix, { force: true });
    copyFileSync(other.file, file);
    expect(keys.findOwner('k')).to.equal(undefined);
    expect(keys.findOwner('other')).to.deep.equal({ user_id: 'bob', role: 'user' });
  });
});
