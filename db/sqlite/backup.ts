import { existsSync, readdirSync, realpathSync, renameSync, rmdirSync, rmSync, statSync } from 'node:fs';
import { open, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { backup, DatabaseSync } from 'node:sqlite';
import { makeFolder } from './data-folder.ts';
import { fileUrl } from './database.ts';

/** Queue of an older version, which the next start moves into `tasks.db`. Until then, it belongs to the data. */
const OLD_QUEUE = 'queue.db';
/** In snapshot order. An older version completes a task in `tasks.db` first, so that file's snapshot must be later. */
const FILES = [OLD_QUEUE, 'tasks.db', 'auth.db'] as const;
const PAGES_PER_STEP = 1000;
const BUSY_TIMEOUT_MS = 5000;

/**
 * Copies the databases in `dataDir` to `folder`, creating the folder if missing. Deletes all copies if an error occurs.
 *
 * @throws {Error} with a one-line message that says what to fix, or the abort reason of `signal`
 */
export async function backUpDatabases(
  dataDir: string,
  folder: string,
  signal: AbortSignal,
): Promise<{ file: string; bytes: number }[]> {
  const files = FILES.filter((file) => {
    if (existsSync(join(dataDir, file))) return true;
    if (file === OLD_QUEUE) return false;
    throw new Error(`${join(dataDir, file)} does not exist: set DATA_DIR to the folder of the databases`);
  });
  checkFolder(dataDir, folder);
  using snapshots = new DisposableStack();
  const made: string[] = [];
  const isNew = makeFolder(resolve(folder));
  try {
    const sources = files.map((file) => ({ file, snapshot: snapshots.use(openSnapshot(join(dataDir, file))) }));
    for (const { file, snapshot } of sources) {
      await copy(snapshot, join(folder, file), made, signal).catch((error: Error) => {
        throw new Error(`cannot copy ${file}: ${error.message}`, { cause: error });
      });
    }
    signal.throwIfAborted();
    for (const [index, file] of files.entries()) {
      renameSync(partialPath(join(folder, file)), join(folder, file));
      made[index] = join(folder, file);
    }
    await sync(folder);
    return files.map((file) => ({ file, bytes: statSync(join(folder, file)).size }));
  } catch (error) {
    for (const path of made) for (const suffix of ['', '-journal']) rmSync(path + suffix, { force: true });
    if (isNew && readdirSync(folder).length === 0) rmdirSync(folder);
    throw error;
  }
}

function checkFolder(dataDir: string, folder: string): void {
  if (!existsSync(folder)) return;
  if (!statSync(folder).isDirectory()) throw new Error(`${folder} is not a folder: name another one`);
  if (realpathSync(folder) === realpathSync(dataDir))
    throw new Error(`${folder} is the data folder itself: name another one`);
  // SQLite would apply a log left over from an earlier backup to the new backup.
  if (readdirSync(folder).length > 0) throw new Error(`${folder} is not empty: name a new folder`);
}

/** Opens a database in a read transaction, because otherwise each commit of another process would restart the copy. */
function openSnapshot(path: string): DatabaseSync {
  let connection: DatabaseSync | undefined;
  try {
    connection = new DatabaseSync(fileUrl(path, 'mode=rw'), { timeout: BUSY_TIMEOUT_MS });
    connection.exec('BEGIN; SELECT 1 FROM sqlite_schema');
    return connection;
  } catch (error) {
    connection?.close();
    throw new Error(`${path}: ${(error as Error).message}`, { cause: error });
  }
}

async function copy(source: DatabaseSync, path: string, made: string[], signal: AbortSignal): Promise<void> {
  // Only the owner may read the copy, because it contains API keys.
  await writeFile(partialPath(path), '', { flag: 'wx', mode: 0o600 });
  made.push(partialPath(path));
  signal.throwIfAborted();
  await backup(source, partialPath(path), { rate: PAGES_PER_STEP, progress: () => signal.throwIfAborted() });
  check(partialPath(path));
  await sync(partialPath(path));
}

function check(path: string): void {
  // `immutable=1` avoids locks and a `-wal` file, and is safe, because no other process opens the `.partial` file.
  using connection = new DatabaseSync(fileUrl(path, 'immutable=1'));
  const check = connection.prepare('PRAGMA integrity_check(1)').get() as { integrity_check: string };
  const result = check.integrity_check.replaceAll('\n', ' ');
  if (result !== 'ok') throw new Error(`it is damaged: ${result}`);
}

async function sync(path: string): Promise<void> {
  await using file = await open(path);
  await file.sync();
}

function partialPath(path: string): string {
  return `${path}.partial`;
}
