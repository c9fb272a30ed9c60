import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { SqliteStore, type SqliteStoreOptions } from '../../db/sqlite/store.ts';
import { afterTest } from './cleanup.ts';
import { fillDataFolder } from './migrated-folder.ts';

/** Opens an empty store in a folder of its own. It is closed after the test. */
export function openFreshStore(
  driver: 'memory' | 'sqlite',
  options: Pick<SqliteStoreOptions, 'now'> & Partial<SqliteStoreOptions>,
): SqliteStore {
  const dataDir = mkdtempSync(join(tmpdir(), 'store-'));
  fillDataFolder(dataDir);
  const bounds = { maxLength: 2000, maxBytes: 1_000_000, maxKeys: 100 };
  const store = new SqliteStore({ dataDir, driver, bounds, newId: randomUUID, excessRows: async () => 0, ...options });
  store.start();
  afterTest(async () => {
    await store.close();
    rmSync(dataDir, { recursive: true });
  });
  return store;
}
