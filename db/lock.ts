import { DatabaseSync } from 'node:sqlite';

/** Another process holds the lock. */
export class Locked extends Error {
  override name = 'Locked';
}

/**
 * Locks a file, which is made where it is missing, until the returned function is called or the process ends,
 * however it ends: nothing has to be cleaned up after a `kill -9`.
 *
 * @throws {Locked} when another process, or another part of this one, holds it; any other error when it cannot be made
 */
export function lock(path: string): () => void {
  let database: DatabaseSync | undefined;
  try {
    database = new DatabaseSync(path);
    database.exec('BEGIN EXCLUSIVE');
  } catch (error) {
    database?.close();
    const SQLITE_BUSY = 5;
    const { errcode, message } = error as { errcode?: number; message: string };
    throw errcode === SQLITE_BUSY
      ? new Locked(`${path} is locked`, { cause: error })
      : new Error(`cannot lock ${path}: ${message}`, { cause: error });
  }
  return () => {
    if (database.isOpen) database.close();
  };
}
