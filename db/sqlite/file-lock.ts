import { DatabaseSync } from 'node:sqlite';

/** Thrown if the file is already locked, by this process or another. */
export class Locked extends Error {
  override name = 'Locked';
}

/**
 * Locks a file, creating the file if missing. The returned function releases the lock. The lock is also released when
 * the process ends, even by `kill -9`.
 *
 * @throws {Locked} if the file is already locked, by this process or another; any other Error if it cannot be locked
 */
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
    const remedy = errcode === SQLITE_FULL ? 'free some space' : 'delete the file, which holds no data';
    throw new Error(`cannot lock ${path}: ${message}: ${remedy}`, { cause: error });
  }
  return () => database[Symbol.dispose]();
}
