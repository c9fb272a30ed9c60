import { copyFileSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { PostgresApiKeys } from '../../db/postgres/api-keys.ts';
import { ApiKeys, openAuthDatabase } from '../../db/sqlite/api-keys.ts';
import { DatabaseUnavailable } from '../../db/task-store.ts';
import { errorOf } from '../store/stage.ts';
import { afterTest } from '../support/cleanup.ts';
import { migratedFolder, openBeside, runOn } from '../support/migrated-folder.ts';
import { describeWithPostgres, migratedSchema, openDatabase } from '../support/servers.ts';

const INSERT = 'INSERT INTO api_keys (api_key, user_id, role, created_at)';

/** @param present keys that are in the file before it is opened */
async function freshInSqlite(...present: string[]) {
  const dataDir = await migratedFolder();
  const file = join(dataDir, 'auth.db');
  for (const key of present) runOn(dataDir, `${INSERT} VALUES ('${key}', 'of ${key}', 'user', 1)`, 'auth.db');
  const database = openAuthDatabase(file, 50);
  afterTest(() => database.close());
  const beside = openBeside(dataDir, 'auth.db');
  const sql = async (text: string, values: (string | number)[] = []): Promise<unknown[]> =>
    beside.prepare(text.replaceAll('$', '?')).all(...values);
  return { keys: new ApiKeys(database), database, close: () => database.close(), sql, file };
}

async function freshInPostgres() {
  const { url, sql } = await migratedSchema();
  const database = openDatabase(url);
  return { keys: new PostgresApiKeys(database), close: () => database.close(), sql, url };
}

function describeApiKeys(open: typeof freshInSqlite | typeof freshInPostgres): void {
  const fresh = async () => {
    const { sql, ...opened } = await open();
    const insert = (key: string, user = 'alice', role = 'user') =>
      sql(`${INSERT} VALUES ($1, $2, $3, 1)`, [key, user, role]);
    return { ...opened, sql, insert };
  };

  it('makes the demo user once, with a key of 32 characters and the role user, unless there is a record, and counts those left after a revocation', async () => {
    const { keys, sql, insert } = await fresh();
    const { apiKey, created } = await keys.ensureDemoUser(1_700_000_000);
    expect(created).to.equal(true);
    expect(apiKey).to.match(/^[\x21-\x7e]{32}$/);
    await insert('later', 'demo', 'admin');
    expect(await keys.ensureDemoUser(2)).to.deep.equal({ apiKey, created: false });
    expect(await sql('SELECT * FROM api_keys ORDER BY id')).to.deep.equal([
      { id: 1, api_key: apiKey, user_id: 'demo', role: 'user', created_at: 1_700_000_000 },
      { id: 2, api_key: 'later', user_id: 'demo', role: 'admin', created_at: 1 },
    ]);
    expect(await keys.revoke(1)).to.deep.equal({ user_id: 'demo', role: 'user', others: 1 });
    expect(await keys.ensureDemoUser(3), 'any role').to.deep.equal({ apiKey: 'later', created: false });
    expect(await keys.revoke(2)).to.include({ others: 0 });
  });

  it('finds user and role of a key to the letter', async () => {
    const { keys, insert } = await fresh();
    const texts = ['k1', 'k2', '\\', '\\x41', '\\\\', "'", 'ü', '😀', ' ', 'x'.repeat(10_000), 'secret'];
    for (const [index, key] of texts.entries()) await insert(key, `user ${index}`, 'admin');
    for (const [index, key] of texts.entries())
      expect(await keys.findOwner(key), key).to.deep.equal({ user_id: `user ${index}`, role: 'admin' });
    for (const key of ['', 'Secret', 'secret ', 'secre', '%', "' OR 1=1 --", 'secret\0', '\0', '\ud800', 'A'])
      expect(await keys.findOwner(key), JSON.stringify(key)).to.equal(undefined);
  });

  it('tells a lookup that fails from a database that cannot be had', async () => {
    const { keys, sql, insert, close } = await fresh();
    await insert('k');
    expect(await keys.findOwner('k')).to.include({ user_id: 'alice' });
    await sql('DROP TABLE api_keys');
    const calls = [() => keys.findOwner('k'), () => keys.ensureDemoUser(1), () => keys.list(), () => keys.revoke(1)];
    for (const call of calls) {
      const error = await errorOf(call);
      expect(error).to.not.be.instanceOf(DatabaseUnavailable);
      expect(error.message).to.match(/no such table|relation "api_keys" does not exist/);
    }
    await close();
    for (const call of calls) expect(await errorOf(call)).to.be.instanceOf(DatabaseUnavailable);
  });

  it('sees changes of another process at once', async () => {
    const { keys, sql, insert } = await fresh();
    expect(await keys.findOwner('k')).to.equal(undefined);
    await insert('k');
    expect(await keys.findOwner('k')).to.deep.equal({ user_id: 'alice', role: 'user' });
    await sql("UPDATE api_keys SET role = 'admin', api_key = 'k2'");
    expect(await keys.findOwner('k')).to.equal(undefined);
    expect(await keys.findOwner('k2')).to.deep.equal({ user_id: 'alice', role: 'admin' });
    await sql('DELETE FROM api_keys');
    expect(await keys.findOwner('k2')).to.equal(undefined);
  });
}

describe('API keys in SQLite', () => {
  describeApiKeys(freshInSqlite);

  it('are synced with each change', async () => {
    expect((await freshInSqlite()).database.get('PRAGMA synchronous')).to.deep.equal({ synchronous: 2 });
  });

  it('are those of a file that replaces another one', async () => {
    const [{ keys, file }, other] = [await freshInSqlite('k'), await freshInSqlite('other')];
    expect(keys.findOwner('k')).to.deep.equal({ user_id: 'of k', role: 'user' });
    renameSync(file, `${file}.away`);
    expect(() => keys.findOwner('k')).to.throw(DatabaseUnavailable);
    for (const suffix of ['-wal', '-shm']) rmSync(file + suffix, { force: true });
    // Both files have the same data version when they are opened.
    copyFileSync(other.file, file);
    expect(keys.findOwner('k')).to.equal(undefined);
    expect(keys.findOwner('other')).to.deep.equal({ user_id: 'of other', role: 'user' });
  });
});

describeWithPostgres('API keys in PostgreSQL', () => {
  describeApiKeys(freshInPostgres);

  it('have one demo user when ten nodes start at once', async () => {
    const { url, sql } = await freshInPostgres();
    const nodes = Array.from({ length: 10 }, () => new PostgresApiKeys(openDatabase(url, { connections: 1 })));
    const made = await Promise.all(nodes.map((node) => node.ensureDemoUser(1)));
    expect(made.filter(({ created }) => created)).to.have.lengthOf(1);
    expect(new Set(made.map(({ apiKey }) => apiKey))).to.have.property('size', 1);
    expect(await sql('SELECT * FROM api_keys')).to.have.lengthOf(1);
  });
});
