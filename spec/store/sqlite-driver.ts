import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { migrate } from '../../db/sqlite/migrate.ts';
import { SqliteStore, type SqliteStoreOptions } from '../../db/sqlite/store.ts';
import type { TaskStore } from '../../db/task-store.ts';
import { afterTest, temporaryFolder } from '../support/cleanup.ts';
import type { Driver, OpenOptions } from './stage.ts';

/** Creates a data folder with migrated files. */
export async function freshFolder(): Promise<string> {
  const folder = await temporaryFolder();
  migrate(folder);
  return folder;
}

/** Opens the store of a data folder, without starting it. */
export function openIn(dataDir: string, driver: SqliteStoreOptions['driver'], options: OpenOptions) {
  const count = () => beside(dataDir).prepare('SELECT count(*) AS count FROM tasks').get() as { count: number };
  return new SqliteStore({
    dataDir,
    driver,
    ...options,
    newId: randomUUID,
    excessRows: async (rows) => Math.max(0, count().count - rows),
  });
}

/** Returns the driver that keeps the queue in memory or in the file. Without `given`, each store has a new data folder. */
export function sqliteDriver(driver: SqliteStoreOptions['driver'], given?: string): Driver {
  const folders = new WeakMap<TaskStore, string>();
  const openStarted = async (dataDir: string, options: OpenOptions) => {
    const store = openIn(dataDir, driver, options);
    folders.set(store, dataDir);
    await store.start();
    return store;
  };
  return {
    isDurable: driver === 'sqlite',
    open: async (options) => openStarted(given ?? (await freshFolder()), options),
    reopen: (former, options) => openStarted(folders.get(former) as string, options),
    async insertRow(store, ...row) {
      const insert = "INSERT INTO tasks (id, payload, status, created_at) VALUES (?, '{}', ?, ?)";
      beside(folders.get(store) as string)
        .prepare(insert)
        .run(...row);
    },
  };
}

/** Opens another connection to the file of a data folder. */
export function beside(folder: string): DatabaseSync {
  const database = new DatabaseSync(join(folder, 'tasks.db'));
  afterTest(() => database.close());
  return database;
}
