import { open } from 'node:fs/promises';

/** Syncs the log of a database to disk without blocking the thread. The database's connections sync it only at a checkpoint. */
export class WalSync {
  readonly #path: string;
  #running: Promise<void> | undefined;
  #next: Promise<void> | undefined;

  /** @param path path of the database */
  constructor(path: string) {
    this.#path = `${path}-wal`;
  }

  /** Resolves when everything committed before the call is on disk. Calls made while a sync runs share the next sync. */
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
    const file = await open(this.#path).catch((error: NodeJS.ErrnoException) => {
      // A missing log is no error: all commits are in the database file, synced by the checkpoint before the log's removal.
      if (error.code !== 'ENOENT') throw error;
    });
    if (file === undefined) return;
    try {
      await file.datasync();
    } finally {
      await file.close();
    }
  }
}
