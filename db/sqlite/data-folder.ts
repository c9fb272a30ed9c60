import { accessSync, constants, existsSync, mkdirSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { DatabaseSync } from 'node:sqlite';

const [SQLITE_BUSY, SQLITE_FULL] = [5, 13];

/**
 * Creates the data folder if it is missing, and locks it until the returned function is called or the process ends.
 *
 * @throws {Error} with a one-line message that says what to fix
 */
export function lockDataFolder(dataDir: string): () => void {
  try {
    makeFolder(resolve(dataDir));
  } catch (error) {
    const { message } = error as Error;
    const reason = `cannot create the folder ${dataDir}: ${message}: set DATA_DIR to another folder`;
    throw new Error(reason, { cause: error });
  }
  const path = join(dataDir, 'queue.lock');
  let database: DatabaseSync | undefined;
  try {
    database = new DatabaseSync(path);
    database.exec('BEGIN EXCLUSIVE');
    return () => database?.[Symbol.dispose]();
  } catch (error) {
    database?.close();
    const { errcode, message } = error as { errcode?: number; message: string };
    const reason =
      errcode === SQLITE_BUSY
        ? `${dataDir} is in use: stop the services that use it, or set DATA_DIR to another folder`
        : `cannot lock ${path}: ${message}: ${errcode === SQLITE_FULL ? 'free some space' : remedyFor(path)}`;
    throw new Error(reason, { cause: error });
  }
}

/**
 * Creates a folder and its parents for their owner only. Returns whether the folder was missing. Not by `recursive`,
 * because Node's recursive `mkdir` never returns for a path below `/proc`.
 */
export function makeFolder(path: string): boolean {
  if (existsSync(path)) return false;
  makeFolder(dirname(path));
  try {
    mkdirSync(path, { mode: 0o700 });
  } catch (error) {
    // Another process may have created the folder after the call of `existsSync`.
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
  return true;
}

function remedyFor(path: string): string {
  try {
    accessSync(dirname(path), constants.W_OK);
    if (existsSync(path)) return 'delete the file, which holds no data';
  } catch {}
  return 'set DATA_DIR to another folder';
}
