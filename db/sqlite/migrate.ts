import { closeSync, openSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { migrationSteps } from '../migration-steps.ts';
import { checkDamage, isDamage } from './corruption-check.ts';
import { makeDataFolder } from './data-folder-lock.ts';

export interface CreatedDatabase {
  file: string;
  /** Whether the file existed but was empty, possibly because its data was lost. */
  wasEmpty: boolean;
}

/** Tables of each database. The key names both the database file and the folder of its migrations. */
export const schemas = {
  auth: ['api_keys'],
  tasks: ['tasks'],
  queue: ['messages', 'dead_letters', 'idempotency_keys', 'pauses'],
};

/**
 * Migrates every database in `dataDir`, creating missing databases. Several processes may call the function at once.
 *
 * @param onStart called when the migration of a database begins, which may take long
 * @returns the databases that were created
 * @throws {Error} with a one-line message that names the file
 */
export function migrate(dataDir: string, onStart: () => void = () => {}): CreatedDatabase[] {
  makeDataFolder(dataDir);
  return Object.entries(schemas).flatMap(([name, tables]) => {
    const file = join(dataDir, `${name}.db`);
    try {
      const present = bytesOf(file);
      migrateFile(file, tables, new URL(`../migrations/${name}/`, import.meta.url), onStart);
      return present === undefined || present === 0 ? [{ file, wasEmpty: present === 0 }] : [];
    } catch (error) {
      const { message } = error as Error;
      const isFolder = (error as NodeJS.ErrnoException).code === 'EISDIR';
      const remedy = isDamage(error) || isFolder ? `: ${RESTORE}` : isDiskFull(error) ? `: ${FREE_SPACE}` : '';
      throw new Error(`cannot migrate ${file}: ${message}${remedy}`, { cause: error });
    }
  });
}

const RESTORE = 'restore it from a backup, or move it and its -wal file away to start with an empty one';
const FREE_SPACE = 'free some space on the disk of DATA_DIR';
const SQLITE_FULL = 13;
/** SQLite cannot extend the file of its shared memory (`-shm`). */
const SQLITE_IOERR_SHMSIZE = 4874;

function isDiskFull(error: unknown): boolean {
  const { errcode, code } = error as { errcode?: number; code?: string };
  return errcode === SQLITE_FULL || errcode === SQLITE_IOERR_SHMSIZE || code === 'ENOSPC';
}

function bytesOf(file: string): number | undefined {
  // Reads the log's size before the file's, so that a database being created never looks like a log without a database.
  const log = statSync(`${file}-wal`, { throwIfNoEntry: false })?.size ?? 0;
  const bytes = statSync(file, { throwIfNoEntry: false })?.size;
  if (log === 0 || (bytes !== undefined && bytes > 0)) return bytes;
  // Opening the empty file would make SQLite delete its log, which contains the latest commits.
  throw new Error(`the file is missing or empty, but ${file}-wal is not: ${RESTORE}`);
}

const BUSY_TIMEOUT_MS = 5000;
const SQLITE_BUSY = 5;

function migrateFile(path: string, tables: readonly string[], migrations: URL, onStart: () => void): void {
  // Only the owner may read the databases, because they contain API keys. SQLite gives their logs the same mode.
  closeSync(openSync(path, 'a', 0o600));
  // Closing the database rolls back an unfinished transaction.
  using database = new DatabaseSync(path, { timeout: BUSY_TIMEOUT_MS });
  enterWalMode(database);
  checkDamage(database, tables);
  database.exec('BEGIN IMMEDIATE');
  const { user_version: version } = database.prepare('PRAGMA user_version').get() as { user_version: number };
  const present = database.prepare("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?");
  const isComplete = tables.every((table) => present.get(table) !== undefined);
  const { steps, newest } = migrationSteps(migrations, { version, isComplete });
  if (steps.length > 0) onStart();
  for (const sql of steps) apply(database, sql);
  database.exec(`PRAGMA user_version = ${newest}; COMMIT`);
}

/** Retries, because SQLite may ignore the busy timeout if two connections enter WAL mode simultaneously. */
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

/** Applies a migration. Ignores the error for an existing column, because SQLite has no `ADD COLUMN IF NOT EXISTS`. */
function apply(database: DatabaseSync, sql: string): void {
  try {
    database.exec(sql);
  } catch (error) {
    if (!(error as Error).message.startsWith('duplicate column name')) throw error;
  }
}
