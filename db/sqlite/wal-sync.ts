import { open } from 'node:fs/promises';

/** Syncs a file to disk, if it exists, without blocking the thread. */
export type SyncFile = (path: string) => Promise<void>;

/** Syncs a database's log (`-wal`) without blocking the thread. SQLite itself syncs the log only at a checkpoint. */
export class WalSync {
  readonly #path: string;
  readonly #syncFile: SyncFile;
  #running: Promise<void> | undefined;
  #next: Promise<void> | undefined;

  constructor(databasePath: string, syncFile: SyncFile = datasync) {
    this.#path = `${databasePath}-wal`;
    this.#syncFile = syncFile;
  }

  /** Resolves when everything committed before the call is on disk. Calls made during a sync share the next sync. */
  sync(): Promise<void> {
    this.#next ??= this.#flushNext();
    return this.#next;
  }

  async #flushNext(): Promise<void> {
    await this.#running?.catch(() => {});
    this.#next = undefined;
    this.#running = this.#syncFile(this.#path);
    await this.#running;
  }
}

async function datasync(path: string): Promise<void> {
  await using file = await open(path).catch((error: NodeJS.ErrnoException) => {
    // A missing log needs no sync, because SQLite removes it only after syncing all commits to the database file.
    if (error.code !== 'ENOENT') throw error;
    return undefined;
  });
  await file?.datasync();
}
