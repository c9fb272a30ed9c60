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

/** A database that was copied. */
export interface CopiedFile {
  file: string;
  bytes: number;
}

/**
 * In the order in which their state is held. A task leaves `queue.db` when its row is in `tasks.db`: one that is done in
 * between is in both, and one that is in neither came later.
 */
const FILES = ['queue.db', 'tasks.db', 'auth.db'] as const;
/** A folder of an older version may have none. */
const OPTIONAL: readonly string[] = ['queue.db'];

/** 4 MiB: between two steps it is looked whether to go on. */
const PAGES_A_STEP = 1000;
/** How long a file may be locked, which it is when its log is being recovered. */
const BUSY_TIMEOUT_MS = 5000;

/**
 * Copies the databases of `dataDir`, as they are when this begins, into `folder`, which is made where it is missing. Others
 * may write meanwhile. All files appear together, checked and on disk, or none.
 *
 * @param signal ends it, with nothing left behind
 * @throws {Error} with one line that says what to mend, and what the signal was given as its reason
 */
export async function backUp(dataDir: string, folder: string, signal: AbortSignal): Promise<CopiedFile[]> {
  const files = FILES.filter((file) => {
    if (existsSync(join(dataDir, file))) return true;
    if (OPTIONAL.includes(file)) return false;
    throw new Error(`there is no ${join(dataDir, file)}: set DATA_DIR to the folder of the databases`);
  });
  refuse(dataDir, folder);
  const sources: Array<{ file: string; connection: DatabaseSync }> = [];
  const made: string[] = [];
  const isNew = makeFolder(folder);
  try {
    for (const file of files) sources.push({ file, connection: hold(join(dataDir, file)) });
    for (const { file, connection } of sources) {
      await named(file, () => copy(connection, join(folder, file), made, signal));
    }
    signal.throwIfAborted();
    for (const [index, file] of files.entries()) {
      renameSync(partial(join(folder, file)), join(folder, file));
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

/** @throws {Error} where a backup has no place */
function refuse(dataDir: string, folder: string): void {
  if (!existsSync(folder)) return;
  if (!statSync(folder).isDirectory()) throw new Error(`${folder} is no folder: name another one`);
  if (realpathSync(folder) === realpathSync(dataDir))
    throw new Error(`${folder} is the data folder itself: name another one`);
  // Whatever it is: an earlier backup, or the log of one, which SQLite would take for this one's.
  if (readdirSync(folder).length > 0) throw new Error(`${folder} is not empty: name a new folder`);
}

/** @returns whether it was missing */
function makeFolder(folder: string): boolean {
  if (existsSync(folder)) return false;
  // One at a time: where none can be made (`/proc`), Node's own way of making all of them never ends.
  makeFolder(dirname(folder));
  mkdirSync(folder, { mode: 0o700 });
  return true;
}

/**
 * Opens a database and holds on to its state: a transaction that reads sees nothing that is committed after it has begun,
 * however long the copying takes, and SQLite has no cause to begin that again.
 */
function hold(path: string): DatabaseSync {
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

/** Copies what a connection holds to a partial file, of which `made` is told as soon as it is there. */
async function copy(source: DatabaseSync, path: string, made: string[], signal: AbortSignal): Promise<void> {
  // It holds keys. SQLite's other files follow suit.
  closeSync(openSync(partial(path), 'wx', 0o600));
  made.push(partial(path));
  signal.throwIfAborted();
  await backup(source, partial(path), { rate: PAGES_A_STEP, progress: () => signal.throwIfAborted() });
  check(partial(path));
  sync(partial(path));
}

/** @throws {Error} when the copy is damaged, and so is what it was made of */
function check(path: string): void {
  const url = pathToFileURL(path);
  // Nobody else knows of it: without locks and logs, which would be left beside it.
  url.searchParams.set('immutable', '1');
  const connection = new DatabaseSync(url);
  try {
    const { integrity_check: result } = connection.prepare('PRAGMA integrity_check(1)').get() as {
      integrity_check: string;
    };
    if (result !== 'ok') throw new Error(`it is damaged: ${result.replaceAll('\n', ' ')}`);
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

function partial(path: string): string {
  return `${path}.partial`;
}

/** Says which file an error is about. */
async function named(file: string, work: () => Promise<void>): Promise<void> {
  await work().catch((error: Error) => {
    throw new Error(`cannot copy ${file}: ${error.message}`, { cause: error });
  });
}
