import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { Database } from '../../db/sqlite/database.ts';
import { SqliteStore, type SqliteStoreOptions } from '../../db/sqlite/store.ts';
import { afterTest } from './cleanup.ts';
import { migratedFolder, openBeside } from './migrated-folder.ts';

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

/** A row, identified by its arrival number. Times are Unix seconds. */
type Row = { arrival: number; createdAt?: number; processedAt?: number | null; bytes?: number };

/** Creates a data folder, a connection to its rows, and a second connection that inserts and lists rows. */
export async function freshRows() {
  const dataDir = await migratedFolder();
  const database = new Database(join(dataDir, 'tasks.db'), { busyTimeoutMs: 1000 });
  const beside = openBeside(dataDir);
  afterTest(() => database.close());
  const insert = beside.prepare(
    "INSERT OR REPLACE INTO tasks (rowid, id, payload, created_at, processed_at) VALUES (?1, 'id' || ?1, zeroblob(?2), ?3, ?4)",
  );
  const add = (...rows: Row[]) => {
    beside.exec('BEGIN');
    for (const { arrival, createdAt = 0, processedAt = createdAt, bytes = 1 } of rows)
      insert.run(arrival, bytes, createdAt, processedAt);
    beside.exec('COMMIT');
  };
  const rows = beside.prepare('SELECT rowid FROM tasks ORDER BY rowid');
  const left = () => rows.all().map(({ rowid }) => rowid as number);
  return { dataDir, database, beside, add, left };
}

export function range(first: number, last: number): number[] {
  return Array.from({ length: last - first + 1 }, (_, index) => first + index);
}
