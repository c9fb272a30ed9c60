import { randomUUID } from 'node:crypto';
import { SqliteStore, type SqliteStoreOptions } from '../../db/sqlite/store.ts';
import { afterTest } from './cleanup.ts';
import { migratedFolder } from './migrated-folder.ts';

/** Opens an empty store with its queue in memory. It is closed after the test. */
export async function openFreshStore(
  options: Pick<SqliteStoreOptions, 'now'> & Partial<SqliteStoreOptions>,
): Promise<SqliteStore> {
  const dataDir = await migratedFolder();
  const bounds = { maxLength: 2000, maxBytes: 1_000_000, maxKeys: 100 };
  const own = { dataDir, driver: 'memory', bounds, newId: randomUUID, excessRows: async () => 0 } as const;
  const store = new SqliteStore({ ...own, ...options });
  store.start();
  afterTest(() => store.close());
  return store;
}
