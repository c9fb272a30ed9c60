import { open } from 'node:fs/promises';

/** Syncs a database's log (`-wal`) without blocking the thread. SQLite itself syncs the log only at a checkpoint. */
export class WalSync {
  readonly #path: string;
  #running: Promise<void> | undefined;
  #next: Promise<void> | undefined;

  constructor(databasePath: string) {
    this.#path = `${databasePath}-wal`;
  }

  /** Resolves when everything committed before the call is on disk. Calls made during a sync share the next sync. */
  sync(): Promise<void> {
    this.#next ??= this.#flushNext();
    return this.#next;
  }

  async #flushNext(): Promise<void> {
    await this.#running?.catch(() => {});
    this.#next = undefined;
    this.#running = this.#flush();
    await this.#running;
  }

  async #flush(): Promise<void> {
    await using file = await open(this.#path).catch((error: NodeJS.ErrnoException) => {
      // A missing log needs no sync, because SQLite removes it only after syncing all commits to the database file.
      if (error.code !== 'ENOENT') throw error;
      return undefined;
    });
    await file?.datasync();
  }
}
