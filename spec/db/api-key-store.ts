import { expect } from 'chai';
import type { PostgresApiKeys } from '../../db/postgres/api-keys.ts';
import type { ApiKeys } from '../../db/sqlite/api-keys.ts';
import { DatabaseUnavailable } from '../../db/task-store.ts';
import { errorOf } from '../store/stage.ts';

/** A row of the table, without its id. */
export type KeyRow = [api_key: string, user_id: string, role: string, created_at: number];

/** A new store of one test, with direct access to its table. */
export interface FreshKeys {
  keys: ApiKeys | PostgresApiKeys;
  insert(...row: KeyRow): Promise<void>;
  /** Returns all rows, ordered by id. */
  all(): Promise<unknown[]>;
  update(sql: string): Promise<void>;
  /** Closes the store's connection. */
  close(): Promise<void>;
}

/** Defines the conformance specs of a store of API keys. `fresh` opens an empty store for each test. */
export function describeApiKeyStore(fresh: () => Promise<FreshKeys>): void {
  it('makes the demo user once, with a key of 32 characters and the role user', async () => {
    const { keys, all } = await fresh();
    const { apiKey, created } = await keys.ensureDemoUser(1_700_000_000);
    expect(created).to.equal(true);
    expect(apiKey).to.match(/^[\x21-\x7e]{32}$/);
    expect(await keys.ensureDemoUser(2)).to.deep.equal({ apiKey, created: false });
    expect(await all()).to.deep.equal([
      { id: 1, api_key: apiKey, user_id: 'demo', role: 'user', created_at: 1_700_000_000 },
    ]);
  });

  it('leaves a demo record with a key and role of its own as it is', async () => {
    const { keys, insert, all } = await fresh();
    await insert('chosen', 'demo', 'admin', 1);
    await insert('later', 'demo', 'user', 2);
    expect(await keys.ensureDemoUser(3)).to.deep.equal({ apiKey: 'chosen', created: false });
    expect(await all()).to.have.length(2);
  });

  it('finds user and role of a key, whatever characters it has', async () => {
    const { keys, insert } = await fresh();
    const texts = ['k1', 'k2', '\\', '\\x41', '\\\\', "'", 'ü', '😀', ' ', 'x'.repeat(10_000)];
    for (const [index, key] of texts.entries()) await insert(key, `user ${index}`, 'admin', 1);
    for (const [index, key] of texts.entries()) {
      expect(await keys.findOwner(key), key).to.deep.equal({ user_id: `user ${index}`, role: 'admin' });
    }
  });

  it('finds no user for a key that differs in any character', async () => {
    const { keys, insert } = await fresh();
    await insert('secret', 'alice', 'user', 1);
    for (const key of ['', 'Secret', 'secret ', 'secre', '%', "' OR 1=1 --", 'secret\0', '\0', '\ud800', '\\x41']) {
      expect(await keys.findOwner(key), JSON.stringify(key)).to.equal(undefined);
    }
  });

  it('tells a lookup that fails from a database that cannot be had', async () => {
    const { keys, update, close } = await fresh();
    await update('DROP TABLE api_keys');
    const calls = [() => keys.findOwner('k'), () => keys.ensureDemoUser(1), () => keys.list(), () => keys.revoke(1)];
    for (const call of calls) {
      const error = await errorOf(call);
      expect(error).to.be.instanceOf(Error).and.not.instanceOf(DatabaseUnavailable);
      expect((error as Error).message).to.match(/no such table|relation "api_keys" does not exist/);
    }
    await close();
    for (const call of calls) expect(await errorOf(call)).to.be.instanceOf(DatabaseUnavailable);
  });

  it('sees changes of another process at once', async () => {
    const { keys, insert, update } = await fresh();
    expect(await keys.findOwner('k')).to.equal(undefined);
    await insert('k', 'alice', 'user', 1);
    expect(await keys.findOwner('k')).to.deep.equal({ user_id: 'alice', role: 'user' });
    await update("UPDATE api_keys SET role = 'admin' WHERE api_key = 'k'");
    expect(await keys.findOwner('k')).to.deep.equal({ user_id: 'alice', role: 'admin' });
    await update("UPDATE api_keys SET api_key = 'k2'");
    expect(await keys.findOwner('k')).to.equal(undefined);
    expect(await keys.findOwner('k2')).to.not.equal(undefined);
    await update('DELETE FROM api_keys');
    expect(await keys.findOwner('k2')).to.equal(undefined);
  });

  it('lists the last characters of long keys, revokes a key by its id, and counts the others of its user', async () => {
    const { keys, insert } = await fresh();
    const first = await keys.create({ user_id: 'alice', role: 'user' }, 1);
    const second = await keys.create({ user_id: 'alice', role: 'auditor' }, 2);
    await insert('x'.repeat(15), 'bob', 'user', 3);
    const endings = [first, second].map(({ apiKey }) => apiKey.slice(-4));
    expect((await keys.list()).map(({ ending }) => ending)).to.deep.equal([...endings, '']);
    expect(await keys.revoke(second.id)).to.deep.equal({ user_id: 'alice', role: 'auditor', others: 1 });
    expect(await keys.findOwner(second.apiKey)).to.equal(undefined);
    expect(await keys.findOwner(first.apiKey)).to.not.equal(undefined);
    expect(await keys.revoke(first.id)).to.deep.equal({ user_id: 'alice', role: 'user', others: 0 });
  });
}
