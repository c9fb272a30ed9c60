import { accessSync, constants, existsSync } from 'node:fs';
import { dirname } from 'node:path';
import { DatabaseSync } from 'node:sqlite';

/** Thrown if the file is already locked, by this process or another. */
export class Locked extends Error {
  override name = 'Locked';
}

/** Locks a file until the returned function is called or the process ends. @throws {Locked} if it is already locked */
export function lock(path: string): () => void {
  let database: DatabaseSync | undefined;
  try {
    database = new DatabaseSync(path);
    database.exec('BEGIN EXCLUSIVE');
  } catch (error) {
    database?.close();
    const [SQLITE_BUSY, SQLITE_FULL] = [5, 13];
    const { errcode, message } = error as { errcode?: number; message: string };
    if (errcode === SQLITE_BUSY) throw new Locked(`${path} is locked`, { cause: error });
    const remedy = errcode === SQLITE_FULL ? 'free some space' : remedyFor(path);
    throw new Error(`cannot lock ${path}: ${message}: ${remedy}`, { cause: error });
  }
  return () => database[Symbol.dispose]();
}

function remedyFor(path: string): string {
  const canDelete = existsSync(path) && isWritable(dirname(path));
  return canDelete ? 'delete the file, which holds no data' : 'set DATA_DIR to another folder';
}

function isWritable(folder: string): boolean {
  try {
    accessSync(folder, constants.W_OK);
    return true;
  } catch {
    return false;
  }
}
