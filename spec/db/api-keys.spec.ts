import { copyFileSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { expect } from 'chai';
import { ApiKeys } from '../../db/api-keys.ts';
import { Database, DatabaseUnavailable } from '../../db/database.ts';
import { migrate } from '../../db/migrate.ts';
import { afterTest, temporaryFolder } from '../support/cleanup.ts';

async function fresh(): Promise<{ keys: ApiKeys; database: Database; beside: DatabaseSync; file: string }> {
  const folder = await temporaryFolder();
  migrate(folder);
  const file = join(folder, 'auth.db');
  const database = new Database(file, { busyTimeoutMs: 50 });
  afterTest(() => database.close());
  const beside = new DatabaseSync(file);
  afterTest(() => beside.close());
  return { keys: new ApiKeys(database), database, beside, file };
}

const insert = 'INSERT INTO api_keys (api_key, user_id, role, created_at) VALUES (?, ?, ?, ?)';
const all = (database: Database) => database.statement('SELECT * FROM api_keys ORDER BY id').all();

describe('ApiKeys', () => {
  it('makes the demo user with a key of 32 characters and the role user', async () => {
    const { keys, database } = await fresh();
    const { apiKey, created } = keys.ensureDemoUser(1_700_000_000);
    expect(created).to.equal(true);
    expect(apiKey).to.match(/^[\x21-\x7e]{32}$/);
    expect(all(database)).to.deep.equal([
      { id: 1, api_key: apiKey, user_id: 'demo', role: 'user', created_at: 1_700_000_000 },
    ]);
  });

  it('makes the demo user once, however often it is asked to', async () => {
    const { keys, database } = await fresh();
    const { apiKey } = keys.ensureDemoUser(1);
    expect(keys.ensureDemoUser(2)).to.deep.equal({ apiKey, created: false });
    expect(keys.ensureDemoUser(3)).to.deep.equal({ apiKey, created: false });
    expect(all(database)).to.have.length(1);
  });

  it('leaves a demo record with a key and role of its own as it is', async () => {
    const { keys, database } = await fresh();
    database.statement(insert).run('chosen', 'demo', 'admin', 1);
    database.statement(insert).run('later', 'demo', 'user', 2);
    expect(keys.ensureDemoUser(3)).to.deep.equal({ apiKey: 'chosen', created: false });
    expect(all(database)).to.have.length(2);
  });

  it('makes the demo user beside other users', async () => {
    const { keys, database } = await fresh();
    database.statement(insert).run('k', 'alice', 'admin', 1);
    expect(keys.ensureDemoUser(2).created).to.equal(true);
    expect(all(database)).to.have.length(2);
  });

  it('draws another key for every database', async () => {
    const [one, other] = [await fresh(), await fresh()];
    expect(one.keys.ensureDemoUser(1).apiKey).to.not.equal(other.keys.ensureDemoUser(1).apiKey);
  });

  it('finds user and role of a key', async () => {
    const { keys, database } = await fresh();
    database.statement(insert).run('k1', 'alice', 'admin', 1);
    database.statement(insert).run('k2', 'bob', 'user', 1);
    expect(keys.findOwner('k1')).to.deep.equal({ user_id: 'alice', role: 'admin' });
    expect(keys.findOwner('k2')).to.deep.equal({ user_id: 'bob', role: 'user' });
  });

  it('finds nobody for a key that is not stored to the letter', async () => {
    const { keys, database } = await fresh();
    database.statement(insert).run('secret', 'alice', 'user', 1);
    for (const key of ['', 'Secret', 'secret ', 'secre', '%', "' OR 1=1 --", 'secret\0']) {
      expect(keys.findOwner(key), JSON.stringify(key)).to.equal(undefined);
    }
  });

  it('tells a lookup that fails from a database that cannot be had', async () => {
    const { keys, database } = await fresh();
    database.statement('DROP TABLE api_keys').run();
    expect(() => keys.findOwner('k'))
      .to.throw('no such table')
      .that.is.not.instanceOf(DatabaseUnavailable);
    database.close();
    expect(() => keys.findOwner('k')).to.throw(DatabaseUnavailable);
  });

  it('heeds at once what another process does to the keys', async () => {
    const { keys, beside } = await fresh();
    const row = beside.prepare(insert);
    expect(keys.findOwner('k')).to.equal(undefined);
    row.run('k', 'alice', 'user', 1);
    expect(keys.findOwner('k')).to.deep.equal({ user_id: 'alice', role: 'user' });
    beside.exec("UPDATE api_keys SET role = 'admin' WHERE api_key = 'k'");
    expect(keys.findOwner('k')).to.deep.equal({ user_id: 'alice', role: 'admin' });
    beside.exec("UPDATE api_keys SET api_key = 'k2'");
    expect(keys.findOwner('k')).to.equal(undefined);
    expect(keys.findOwner('k2')).to.not.equal(undefined);
    beside.exec('DELETE FROM api_keys');
    expect(keys.findOwner('k2')).to.equal(undefined);
  });

  it('heeds what it did itself', async () => {
    const { keys } = await fresh();
    expect(keys.findOwner('k')).to.equal(undefined);
    const { apiKey } = keys.ensureDemoUser(1);
    expect(keys.findOwner(apiKey)).to.deep.equal({ user_id: 'demo', role: 'user' });
  });

  it('makes records, lists them without their keys, and revokes one by its id', async () => {
    const { keys, database } = await fresh();
    const first = keys.create({ user_id: 'alice', role: 'user' }, 1);
    const second = keys.create({ user_id: 'alice', role: 'auditor' }, 2);
    expect([first.id, second.id]).to.deep.equal([1, 2]);
    for (const { apiKey } of [first, second]) expect(apiKey).to.match(/^[\x21-\x7e]{32}$/);
    expect(keys.findOwner(second.apiKey)).to.deep.equal({ user_id: 'alice', role: 'auditor' });
    database.statement(insert).run('x'.repeat(15), 'bob', 'user', 3);
    expect(keys.list()).to.deep.equal([
      { id: 1, user_id: 'alice', role: 'user', created_at: 1, ending: first.apiKey.slice(-4) },
      { id: 2, user_id: 'alice', role: 'auditor', created_at: 2, ending: second.apiKey.slice(-4) },
      { id: 3, user_id: 'bob', role: 'user', created_at: 3, ending: '' },
    ]);
    expect(keys.revoke(2)).to.deep.equal({ user_id: 'alice', role: 'auditor', others: 1 });
    expect(keys.findOwner(second.apiKey)).to.equal(undefined);
    expect(keys.findOwner(first.apiKey)).to.not.equal(undefined);
    expect(keys.revoke(2)).to.equal(undefined);
    expect(keys.revoke(1)).to.deep.equal({ user_id: 'alice', role: 'user', others: 0 });
    expect(keys.list().map(({ id }) => id)).to.deep.equal([3]);
  });

  it('has a record that it made on disk, and a record that it revoked off it, when it says so', async () => {
    const { keys, database } = await fresh();
    const durable: boolean[] = [];
    const { transaction } = database;
    database.transaction = (waits, work) => {
      durable.push(waits);
      transaction.call(database, waits, work);
    };
    keys.create({ user_id: 'alice', role: 'user' }, 1);
    keys.revoke(1);
    expect(durable).to.deep.equal([true, true]);
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
    // Another database in its place, whose version may be the same by chance.
    for (const suffix of ['-wal', '-shm']) rmSync(file + suffix, { force: true });
    copyFileSync(other.file, file);
    expect(keys.findOwner('k')).to.equal(undefined);
    expect(keys.findOwner('other')).to.deep.equal({ user_id: 'bob', role: 'user' });
  });
});
