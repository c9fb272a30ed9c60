import { open } from 'node:fs/promises';

/**
 * Puts what was written to a database in WAL mode on disk, without holding anybody up, where its own connections leave
 * that to the next checkpoint (`synchronous = NORMAL`).
 */
export class WalSync {
  readonly #path: string;
  #running: Promise<void> | undefined;
  #next: Promise<void> | undefined;

  /** @param path of the database */
  constructor(path: string) {
    this.#path = `${path}-wal`;
  }

  /**
   * Fulfilled when everything that was committed before the call is safe from a loss of power. Calls that come while
   * the disk is busy share its next turn.
   *
   * @throws {Error} of the system
   */
  sync(): Promise<void> {
    this.#next ??= this.#turn();
    return this.#next;
  }

  async #turn(): Promise<void> {
    await this.#running?.catch(() => {});
    this.#next = undefined;
    this.#running = this.#flush();
    await this.#running;
  }

  async #flush(): Promise<void> {
    const file = await open(this.#path).catch((error: NodeJS.ErrnoException) => {
      // Without such a file everything is in the database itself: whoever moved it there has waited for the disk.
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
