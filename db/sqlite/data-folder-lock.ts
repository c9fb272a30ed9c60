import { existsSync, mkdirSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { Locked, lock } from './file-lock.ts';

/**
 * Creates the data folder if it is missing, and locks it for this process. Returns a function that releases the lock.
 *
 * @throws {Error} with a one-line message that says what to fix
 */
export function lockDataFolder(dataDir: string): () => void {
  makeDataFolder(dataDir);
  try {
    return lock(join(dataDir, 'queue.lock'));
  } catch (error) {
    if (!(error instanceof Locked)) throw error;
    const message = `${dataDir} is in use: stop the services that use it, or set DATA_DIR to another folder`;
    throw new Error(message, { cause: error });
  }
}

/** Creates the data folder and its parents if they are missing. @throws {Error} with a one-line message */
export function makeDataFolder(dataDir: string): void {
  try {
    makeFolder(resolve(dataDir));
  } catch (error) {
    const { message } = error as Error;
    throw new Error(`cannot create the folder ${dataDir}: ${message}: set DATA_DIR to another folder`, {
      cause: error,
    });
  }
}

/** Not `recursive`, because Node's recursive `mkdir` never returns for a path below `/proc`. */
function makeFolder(path: string): void {
  if (existsSync(path)) return;
  makeFolder(dirname(path));
  try {
    mkdirSync(path, { mode: 0o700 });
  } catch (error) {
    // Another process may have created the folder after the call of `existsSync`.
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
}
