import { closeSync, mkdirSync, openSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { checkDamage, isDamage } from './corruption-check.ts';

/** A database that a migration created. */
export interface CreatedDatabase {
  file: string;
  /** Whether the file existed with 0 bytes, possibly because its data was lost. */
  wasEmpty: boolean;
}

/** The databases, each with its tables and the folder of its numbered migrations. */
export const schemas = [
  describeSchema('auth', 'api_keys'),
  describeSchema('tasks', 'tasks'),
  describeSchema('queue', 'messages', 'dead_letters', 'idempotency_keys'),
];

type Schema = ReturnType<typeof describeSchema>;

function describeSchema(name: string, ...tables: string[]) {
  return { file: `${name}.db`, tables, migrations: new URL(`../migrations/${name}/`, import.meta.url) };
}

/**
 * Migrates every database in `dataDir` to the newest schema, and creates missing ones. Several processes may run it at once.
 *
 * @returns the databases that were created
 * @throws {Error} with a one-line message naming the file, if it is no database, damaged, not writable, or has a newer schema
 */
export function migrate(dataDir: string): CreatedDatabase[] {
  try {
    mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  } catch (error) {
    throw new Error(`cannot make the folder of DATA_DIR: ${(error as Error).message}`, { cause: error });
  }
  return schemas.flatMap((schema) => {
    const file = join(dataDir, schema.file);
    try {
      const present = bytesOf(file);
      migrateFile(file, schema);
      return present === undefined || present === 0 ? [{ file, wasEmpty: present === 0 }] : [];
    } catch (error) {
      const { message } = error as Error;
      const remedy = isDamage(error) ? `: ${RESTORE}` : '';
      throw new Error(`cannot migrate ${file}: ${message}${remedy}`, { cause: error });
    }
  });
}

const RESTORE = 'restore it from a backup, or move it and its -wal file away to start with an empty one';

/** Returns the size of a database file, or undefined if it is missing. @throws {Error} if only its -wal file has data */
function bytesOf(file: string): number | undefined {
  // The log is read first: if another process creates the database, SQLite writes the first page before the log.
  const log = statSync(`${file}-wal`, { throwIfNoEntry: false })?.size ?? 0;
  const bytes = statSync(file, { throwIfNoEntry: false })?.size;
  if (log === 0 || (bytes !== undefined && bytes > 0)) return bytes;
  // SQLite would delete the log of an empty database, and with it the latest commits.
  throw new Error(`the file is missing or empty, but ${file}-wal is not: ${RESTORE}`);
}

/** Longest wait for another process's lock on a database file. */
const BUSY_TIMEOUT_MS = 5000;
const SQLITE_BUSY = 5;

function migrateFile(path: string, { tables, migrations }: Schema): void {
  const steps = readdirSync(migrations)
    .filter((name) => name.endsWith('.sql'))
    .sort()
    .map((name) => ({ version: Number.parseInt(name, 10), sql: readFileSync(new URL(name, migrations), 'utf8') }));
  const newest = steps.at(-1)?.version ?? 0;

  // Only the owner may read the files, because they contain API keys. SQLite gives its logs the same mode.
  closeSync(openSync(path, 'a', 0o600));
  const database = new DatabaseSync(path, { timeout: BUSY_TIMEOUT_MS });
  try {
    enterWalMode(database);
    checkDamage(database, tables);
    database.exec('BEGIN IMMEDIATE');
    const { user_version: version } = database.prepare('PRAGMA user_version').get() as { user_version: number };
    if (version > newest) throw new Error(`its schema has version ${version}, this program supports up to ${newest}`);
    const present = database.prepare("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?");
    // If a table was dropped, all steps run again to create it.
    const done = tables.every((table) => present.get(table) !== undefined) ? version : 0;
    for (const step of steps) if (step.version > done) apply(database, step.sql);
    database.exec(`PRAGMA user_version = ${newest}; COMMIT`);
  } finally {
    // Closing rolls back an unfinished transaction.
    database.close();
  }
}

/** Enters WAL mode, with retries, because SQLite ignores the busy timeout of one of two connections that do so at once. */
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

/** Applies a migration step. Ignores an error for an existing column: SQLite has no `ADD COLUMN IF NOT EXISTS`. */
function apply(database: DatabaseSync, sql: string): void {
  try {
    database.exec(sql);
  } catch (error) {
    if (!(error as Error).message.startsWith('duplicate column name')) throw error;
  }
}
