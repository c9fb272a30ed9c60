import { randomUUID } from 'node:crypto';
import { SqliteStore, type SqliteStoreOptions } from '../../db/sqlite/store.ts';
import type { TaskStore } from '../../db/task-store.ts';
import { migratedFolder, openBeside, runOn } from '../support/migrated-folder.ts';
import { columnsOf, type Driver, type OpenOptions } from './stage.ts';

/** Opens the store of a data folder, without starting it. */
export function openIn(dataDir: string, driver: SqliteStoreOptions['driver'], options: OpenOptions) {
  const count = () => openBeside(dataDir).prepare('SELECT count(*) AS count FROM tasks').get() as { count: number };
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
    open: async (options) => openStarted(given ?? (await migratedFolder()), options),
    reopen: (former, options) => openStarted(folders.get(former) as string, options),
    async insertRows(store, rows) {
      const beside = openBeside(folders.get(store) as string);
      const insert = beside.prepare(`INSERT INTO tasks (rowid, id, payload, status, result, created_at, processed_at)
        VALUES (?, ?, ?, ?, ?, ?, ?)`);
      beside.exec('BEGIN');
      for (const row of rows) insert.run(...columnsOf(row));
      beside.exec('COMMIT');
    },
    read: async (store, sql) => runOn(folders.get(store) as string, sql),
  };
}
