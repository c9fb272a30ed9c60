import { closeSync, fsyncSync, openSync, readFileSync, renameSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { migrationSteps } from '../migration-steps.ts';
import { resultCode } from './database.ts';

export interface CreatedDatabase {
  file: string;
  /** Whether the file existed but was empty, possibly because its data was lost. */
  wasEmpty: boolean;
}

/** Names of the database files, and of the folders of their migrations. */
const DATABASES = ['auth', 'tasks'];
const BUSY_TIMEOUT_MS = 5000;

/** Creates the empty tables of the queue in a database in memory. */
export function createQueueTables(memory: Pick<DatabaseSync, 'exec'>): void {
  memory.exec(readFileSync(new URL('004-queue.sql', migrationsOf('tasks')), 'utf8'));
}

/**
 * Migrates every database in `dataDir`, which the caller must have locked, and creates missing databases. Moves the queue
 * of version 0.1.0 into `tasks.db`.
 *
 * @returns the databases that were created
 * @throws {Error} with a one-line message that names the file
 */
export function migrate(dataDir: string): CreatedDatabase[] {
  const created: CreatedDatabase[] = [];
  const run = (file: string, work: (bytes: number | undefined) => void) => {
    try {
      work(bytesOf(file));
    } catch (error) {
      const { message } = error as Error;
      throw new Error(`cannot migrate ${file}: ${message}${remedyFor(error)}`, { cause: error });
    }
  };
  for (const name of DATABASES) {
    const file = join(dataDir, `${name}.db`);
    run(file, (bytes) => {
      migrateFile(file, migrationsOf(name));
      if (bytes === undefined || bytes === 0) created.push({ file, wasEmpty: bytes === 0 });
    });
  }
  const oldQueue = join(dataDir, 'queue.db');
  run(oldQueue, (bytes) => {
    if (bytes === undefined) return;
    if (bytes === 0) created.push({ file: oldQueue, wasEmpty: true });
    if (bytes > 0) copyOldQueue(oldQueue, join(dataDir, 'tasks.db'));
    renameSync(oldQueue, `${oldQueue}.migrated`);
    const folder = openSync(dataDir, 'r');
    fsyncSync(folder);
    closeSync(folder);
  });
  return created;
}

function migrationsOf(name: string): URL {
  return new URL(`../migrations/${name}/`, import.meta.url);
}

const RESTORE = 'restore it from a backup, or move it and its -wal file away to start with an empty one';

function bytesOf(file: string): number | undefined {
  // Reads the log's size before the file's, so that a database being created never looks like a log without a database.
  const log = statSync(`${file}-wal`, { throwIfNoEntry: false })?.size ?? 0;
  const bytes = statSync(file, { throwIfNoEntry: false })?.size;
  if (log === 0 || (bytes !== undefined && bytes > 0)) return bytes;
  // Opening the empty file would make SQLite delete its log, which contains the latest commits.
  throw new Error(`the file is missing or empty, but ${file}-wal is not: ${RESTORE}`);
}

function migrateFile(path: string, migrations: URL): void {
  // Only the owner may read the databases, because they contain API keys. SQLite gives their logs the same mode.
  closeSync(openSync(path, 'a', 0o600));
  // Closing the database rolls back an unfinished transaction.
  using database = new DatabaseSync(path, { timeout: BUSY_TIMEOUT_MS });
  database.exec('PRAGMA journal_mode = WAL');
  checkDamage(database);
  database.exec('BEGIN IMMEDIATE');
  // All migrations run, which takes no time if nothing is missing.
  const { steps, newest } = migrationSteps(migrations, versionOf(database));
  for (const sql of steps) database.exec(withoutPresentColumns(sql, database));
  database.exec(`PRAGMA user_version = ${newest}; COMMIT`);
}

/** Implements `ADD COLUMN IF NOT EXISTS`, which SQLite lacks. All migrations run at each start. */
function withoutPresentColumns(sql: string, database: DatabaseSync): string {
  const find = database.prepare('SELECT 1 FROM pragma_table_info(?) WHERE name = ?');
  return sql.replaceAll(/^ALTER TABLE (\w+) ADD COLUMN IF NOT EXISTS (\w+)(.*)$/gm, (_, table, column, type) =>
    find.get(table, column) === undefined ? `ALTER TABLE ${table} ADD COLUMN ${column}${type}` : '',
  );
}

function versionOf(database: DatabaseSync): number {
  return (database.prepare('PRAGMA user_version').get() as { user_version: number }).user_version;
}

/** Version of the schema of `queue.db` in version 0.1.0. */
const OLD_QUEUE_VERSION = 8;

/**
 * Copies the old queue into `tasks.db` in one transaction. If the process ends before the file is renamed, the next
 * migration finds the copied messages and only renames the file.
 */
function copyOldQueue(path: string, tasksPath: string): void {
  using old = new DatabaseSync(path, { timeout: BUSY_TIMEOUT_MS });
  // Leaves no log (`-wal`), which would have to be renamed in the same moment as the file.
  old.exec('PRAGMA journal_mode = DELETE');
  checkDamage(old);
  const version = versionOf(old);
  if (version !== OLD_QUEUE_VERSION) {
    const remedy = 'move it away to start without its tasks';
    throw new Error(`its schema has version ${version}, only version ${OLD_QUEUE_VERSION} can be moved: ${remedy}`);
  }
  using database = new DatabaseSync(tasksPath, { timeout: BUSY_TIMEOUT_MS });
  database.prepare('ATTACH ? AS old').run(path);
  database.exec(`BEGIN IMMEDIATE; ${COPY_OLD_QUEUE} COMMIT`);
}

/**
 * Leaves out tasks that were copied before, and tasks that are completed. A message keeps its arrival number unless
 * another message has it; SQLite replaces NULL by a new number. The old order of delivery becomes ascending times, which
 * are in the past, so that newer submissions come later. The start of the queue counts a death for each running message.
 */
const COPY_OLD_QUEUE = `
  INSERT INTO main.messages (arrival, id, action, state, run_at, accepted_at, attempts, crashes, deaths, permanent,
    failed_at, reason, history, body)
  SELECT iif(seq IN (SELECT arrival FROM main.messages), NULL, seq), id,
    iif(json_valid(body), substr(json_extract(body, '$.action'), 1, 256), NULL), state, run_at, first_at, attempts, crashes,
    deaths, permanent, failed_at, reason, iif(history IS NULL, NULL, (
      SELECT json_object('waitedMs', NULL, 'ranMs', 0, 'attempts', json_group_array(
        json_object('startedAt', NULL, 'endedAt', value ->> 'at', 'reason', value ->> 'reason')
      )) FROM json_each(history)
    )), body
  FROM (
    SELECT seq, id, body, iif(running, 'running', iif(due_at = 0, 'waiting', 'retrying')) AS state, iif(running OR due_at = 0,
      min(first_at) OVER () - row_number() OVER (ORDER BY turn DESC, seq DESC), due_at) AS run_at, first_at, attempts,
      crashes, suspect AS deaths, 0 AS permanent, NULL AS failed_at, reason, history
    FROM old.messages
    UNION ALL
    SELECT seq, id, body, 'failed', last_at, first_at, attempts, 0, 0, permanent, last_at, reason, history
    FROM old.dead_letters
  )
  WHERE id NOT IN (SELECT id FROM main.tasks)
  ORDER BY seq IN (SELECT arrival FROM main.messages), seq
  ON CONFLICT (id) DO NOTHING;
  INSERT OR IGNORE INTO main.idempotency_keys (key, fingerprint, task_id, accepted_at)
    SELECT key, fingerprint, task_id, accepted_at FROM old.idempotency_keys;
  DELETE FROM main.queue_state WHERE EXISTS (SELECT 1 FROM old.pauses);
  INSERT INTO main.queue_state (paused) SELECT 1 FROM old.pauses LIMIT 1;`;

/** Maximum size in bytes of a database that is checked in full. Checking a larger one would delay startup. */
const MAX_WHOLE_CHECK = 64 * 1024 * 1024;

const [SQLITE_CORRUPT, SQLITE_FULL, SQLITE_NOTADB] = [11, 13, 26];
/** SQLite cannot extend the file of its shared memory (`-shm`). */
const SQLITE_IOERR_SHMSIZE = 4874;

/** Checks every page, or the ends of each table if the database has more than `maxWholeCheck` bytes. @throws {Error} */
export function checkDamage(database: DatabaseSync, maxWholeCheck = MAX_WHOLE_CHECK): void {
  const withRowid = "schema = 'main' AND type = 'table' AND NOT wr AND name NOT LIKE 'sqlite_%'";
  const names = database.prepare(`SELECT name FROM pragma_table_list WHERE ${withRowid}`);
  const tables = names.all().map(({ name }) => name as string);
  const size = database.prepare('SELECT page_count * page_size AS bytes FROM pragma_page_count, pragma_page_size');
  if ((size.get() as { bytes: number }).bytes > maxWholeCheck) {
    for (const table of tables) {
      for (const order of ['', 'DESC'])
        database.prepare(`SELECT * FROM "${table}" ORDER BY rowid ${order} LIMIT 1`).get();
    }
    return;
  }
  const { quick_check: result } = database.prepare('PRAGMA quick_check(1)').get() as { quick_check: string };
  if (result === 'ok') return;
  throw Object.assign(new Error(`it is damaged: ${result.replaceAll('\n', ' ')}`), { errcode: SQLITE_CORRUPT });
}

/** Whether an error from SQLite or {@link checkDamage} means that the file is damaged. */
function isDamage(error: unknown): boolean {
  return [SQLITE_CORRUPT, SQLITE_NOTADB].includes(resultCode(error) ?? 0);
}

function remedyFor(error: unknown): string {
  const { errcode, code } = error as { errcode?: number; code?: string };
  if (isDamage(error) || code === 'EISDIR') return `: ${RESTORE}`;
  const isFull = errcode === SQLITE_FULL || errcode === SQLITE_IOERR_SHMSIZE || code === 'ENOSPC';
  return isFull ? ': free some space on the disk of DATA_DIR' : '';
}
