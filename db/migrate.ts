import { closeSync, mkdirSync, openSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';

/** A database of the data folder: its file, its tables, and its folder of numbered migrations. */
interface Schema {
  file: string;
  tables: readonly string[];
  migrations: URL;
}

export const schemas: readonly Schema[] = [
  { file: 'auth.db', tables: ['api_keys'], migrations: new URL('migrations/auth/', import.meta.url) },
  { file: 'tasks.db', tables: ['tasks'], migrations: new URL('migrations/tasks/', import.meta.url) },
  {
    file: 'queue.db',
    tables: ['messages', 'dead_letters', 'idempotency_keys'],
    migrations: new URL('migrations/queue/', import.meta.url),
  },
];

/**
 * Brings every database in `dataDir` to the newest schema, creating folder, files and tables that are
 * missing; what is there already stays. Safe to run at any time, and by several processes at once.
 *
 * @throws {Error} with one line that names the file, when it is no database, cannot be written, or was
 *   made by a newer version
 */
export function migrate(dataDir: string): void {
  try {
    mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  } catch (error) {
    throw new Error(`cannot make the folder of DATA_DIR: ${(error as Error).message}`, { cause: error });
  }
  for (const schema of schemas) {
    const path = join(dataDir, schema.file);
    try {
      migrateFile(path, schema);
    } catch (error) {
      throw new Error(`cannot migrate ${path}: ${(error as Error).message}`, { cause: error });
    }
  }
}

/** How long another process may hold a file's lock. */
const BUSY_TIMEOUT_MS = 5000;
const SQLITE_BUSY = 5;

function migrateFile(path: string, { tables, migrations }: Schema): void {
  const steps = readdirSync(migrations)
    .filter((name) => name.endsWith('.sql'))
    .sort()
    .map((name) => ({ version: Number.parseInt(name, 10), sql: readFileSync(new URL(name, migrations), 'utf8') }));
  const newest = steps.at(-1)?.version ?? 0;

  // The keys in there are nobody else's business, whoever made the folder. SQLite's other files follow suit.
  closeSync(openSync(path, 'a', 0o600));
  const database = new DatabaseSync(path, { timeout: BUSY_TIMEOUT_MS });
  try {
    enterWalMode(database);
    database.exec('BEGIN IMMEDIATE');
    const { user_version: version } = database.prepare('PRAGMA user_version').get() as { user_version: number };
    if (version > newest) throw new Error(`its schema has version ${version}, this program knows up to ${newest}`);
    const present = database.prepare("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?");
    // A table that somebody dropped is missing whatever the version says.
    const done = tables.every((table) => present.get(table) !== undefined) ? version : 0;
    for (const step of steps) if (step.version > done) apply(database, step.sql);
    database.exec(`PRAGMA user_version = ${newest}; COMMIT`);
  } finally {
    // Closing takes back a transaction that did not get to its end.
    database.close();
  }
}

/** Where two connections want it at the same time, SQLite tells one of them that the file is locked, without waiting. */
function enterWalMode(database: DatabaseSync): void {
  const pause = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));
  for (const deadline = performance.now() + BUSY_TIMEOUT_MS; ; Atomics.wait(pause, 0, 0, 10)) {
    try {
      database.exec('PRAGMA journal_mode = WAL');
      return;
    } catch (error) {
      if ((error as { errcode?: number }).errcode !== SQLITE_BUSY || performance.now() > deadline) throw error;
    }
  }
}

/** A step that is done again, because another table was dropped, finds its column there: SQLite has no way to ask before. */
function apply(database: DatabaseSync, sql: string): void {
  try {
    database.exec(sql);
  } catch (error) {
    if (!(error as Error).message.startsWith('duplicate column name')) throw error;
  }
}
