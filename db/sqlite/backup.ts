import {
  closeSync,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readdirSync,
  realpathSync,
  renameSync,
  rmdirSync,
  rmSync,
  statSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { backup, DatabaseSync } from 'node:sqlite';
import { pathToFileURL } from 'node:url';

/**
 * Databases in the order of their snapshots. A task is deleted from `queue.db` only after its row is in `tasks.db`. With the
 * queue's snapshot first, a task completed between the two snapshots is in both copies instead of in none.
 */
const FILES = ['queue.db', 'tasks.db', 'auth.db'] as const;
/** File that a data folder of an older version may lack. */
const OPTIONAL = 'queue.db';
/** Number of database pages copied between two checks of the abort signal: 4 MiB. */
const PAGES_PER_STEP = 1000;
/** Longest wait for a database that is locked, for example while its log is recovered. */
const BUSY_TIMEOUT_MS = 5000;

/**
 * Copies the databases of `dataDir`, as they are at the time of the call, into `folder`, which is created if missing. Every copy is
 * checked and synced to disk before any file gets its final name. After an error, no file is left behind.
 *
 * @throws {Error} with a one-line message that says what to fix, or the reason of `signal` if that aborts the backup
 */
export async function backUpDatabases(
  dataDir: string,
  folder: string,
  signal: AbortSignal,
): Promise<{ file: string; bytes: number }[]> {
  const files = FILES.filter((file) => {
    if (existsSync(join(dataDir, file))) return true;
    if (file === OPTIONAL) return false;
    throw new Error(`${join(dataDir, file)} does not exist: set DATA_DIR to the folder of the databases`);
  });
  checkFolder(dataDir, folder);
  const sources: Array<{ file: string; connection: DatabaseSync }> = [];
  const made: string[] = [];
  const isNew = makeFolder(folder);
  try {
    for (const file of files) sources.push({ file, connection: openSnapshot(join(dataDir, file)) });
    for (const { file, connection } of sources) {
      await copy(connection, join(folder, file), made, signal).catch((error: Error) => {
        throw new Error(`cannot copy ${file}: ${error.message}`, { cause: error });
      });
    }
    signal.throwIfAborted();
    for (const [index, file] of files.entries()) {
      renameSync(partialPath(join(folder, file)), join(folder, file));
      made[index] = join(folder, file);
    }
    sync(folder);
    return files.map((file) => ({ file, bytes: statSync(join(folder, file)).size }));
  } catch (error) {
    for (const path of made) for (const suffix of ['', '-journal']) rmSync(path + suffix, { force: true });
    if (isNew && readdirSync(folder).length === 0) rmdirSync(folder);
    throw error;
  } finally {
    for (const { connection } of sources) connection.close();
  }
}

/** Checks that `folder` is missing or empty, and is not the data folder. @throws {Error} if it cannot take a backup */
function checkFolder(dataDir: string, folder: string): void {
  if (!existsSync(folder)) return;
  if (!statSync(folder).isDirectory()) throw new Error(`${folder} is not a folder: name another one`);
  if (realpathSync(folder) === realpathSync(dataDir))
    throw new Error(`${folder} is the data folder itself: name another one`);
  // The folder must be empty, because SQLite would apply the leftover log of an earlier backup to the new one.
  if (readdirSync(folder).length > 0) throw new Error(`${folder} is not empty: name a new folder`);
}

/** Creates a folder and its parents. @returns false if the folder exists already */
function makeFolder(folder: string): boolean {
  if (existsSync(folder)) return false;
  // Creates one level at a time, because Node's recursive mkdir never returns where folders cannot be created (`/proc`).
  makeFolder(dirname(folder));
  mkdirSync(folder, { mode: 0o700 });
  return true;
}

/** Opens a database and begins a read transaction, so that later commits do not restart the backup. */
function openSnapshot(path: string): DatabaseSync {
  const url = pathToFileURL(path);
  url.searchParams.set('mode', 'rw');
  let connection: DatabaseSync | undefined;
  try {
    connection = new DatabaseSync(url, { timeout: BUSY_TIMEOUT_MS });
    connection.exec('BEGIN; SELECT 1 FROM sqlite_schema');
    return connection;
  } catch (error) {
    connection?.close();
    throw new Error(`${path}: ${(error as Error).message}`, { cause: error });
  }
}

/** Copies a snapshot to a file with the suffix `.partial`. That file's path is added to `made` once the file exists. */
async function copy(source: DatabaseSync, path: string, made: string[], signal: AbortSignal): Promise<void> {
  // Only the owner may read the copy, because it contains API keys. SQLite gives its journal the same mode.
  closeSync(openSync(partialPath(path), 'wx', 0o600));
  made.push(partialPath(path));
  signal.throwIfAborted();
  await backup(source, partialPath(path), { rate: PAGES_PER_STEP, progress: () => signal.throwIfAborted() });
  check(partialPath(path));
  sync(partialPath(path));
}

/** Checks the copy of a database. @throws {Error} if the copy is damaged, which means that the source is damaged, too */
function check(path: string): void {
  const url = pathToFileURL(path);
  // No other process uses the copy, so no locks are needed, and SQLite leaves no log beside it.
  url.searchParams.set('immutable', '1');
  const connection = new DatabaseSync(url);
  try {
    const check = connection.prepare('PRAGMA integrity_check(1)').get() as { integrity_check: string };
    const result = check.integrity_check.replaceAll('\n', ' ');
    if (result !== 'ok') throw new Error(`it is damaged: ${result}`);
  } finally {
    connection.close();
  }
}

function sync(path: string): void {
  const file = openSync(path, 'r');
  try {
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
}

function partialPath(path: string): string {
  return `${path}.partial`;
}
