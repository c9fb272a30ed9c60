import { open } from 'node:fs/promises';

/** Syncs the log of a database to disk, without blocking the thread. Its connections sync it only at a checkpoint. */
export class WalSync {
  readonly #path: string;
  #running: Promise<void> | undefined;
  #next: Promise<void> | undefined;

  /** @param path path of the database */
  constructor(path: string) {
    this.#path = `${path}-wal`;
  }

  /** Resolves when everything committed before the call is on disk. Calls during a running sync share the next one. */
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
      // Without a log everything is in the database file: the checkpoint before the log's removal synced it.
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
