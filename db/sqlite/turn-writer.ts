import { type Database, resultCode } from './database.ts';

interface Write {
  run: () => unknown;
  resolve: (result: unknown) => void;
  reject: (error: unknown) => void;
}

export interface TurnWriterOptions {
  /** The database with the queue's tables: in memory, or `file`. */
  queue: Database;
  /** The database with the rows of completed tasks. */
  file: Database;
  /** State in memory that changes with the tables, and is restored if a transaction is rolled back. */
  counters: object;
}

/**
 * Runs the writes of an event loop turn in one transaction at its end, so that no read sees an uncommitted write, and
 * all writes share a commit.
 */
export class TurnWriter {
  /** Reason of the last failed transaction. Undefined after the next successful one. */
  failure: string | undefined;
  readonly #options: TurnWriterOptions;
  #writes: Write[] = [];
  #held: PromiseWithResolvers<void> | undefined;

  constructor(options: TurnWriterOptions) {
    this.#options = options;
  }

  /** Resolves when writes can continue. Undefined if they are not held. */
  get held(): Promise<void> | undefined {
    return this.#held?.promise;
  }

  /** Holds all writes until `resume`, while the log is restarted. */
  hold(): void {
    this.#held ??= Promise.withResolvers();
  }

  /** Commits the writes that wait before others continue, so that events of a commit precede what follows from it. */
  resume(): void {
    const held = this.#held;
    this.#held = undefined;
    this.commit();
    held?.resolve();
  }

  /** Runs `run`, which changes only tables of the queue, in the transaction of this turn. Resolves after the commit. */
  write<T>(run: () => T): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      this.#writes.push({ run, resolve: resolve as Write['resolve'], reject });
      if (this.#writes.length === 1) setImmediate(() => this.commit());
    });
  }

  /**
   * Runs `run` in a transaction of its own, at once.
   *
   * @param usesFile false if `run` changes only tables of the queue. With a queue in memory, it then needs no lock on the file
   * @throws {Error} SQLite's error, after a rollback
   */
  writeNow<T>(run: () => T, usesFile: boolean): T {
    const { queue, file, counters } = this.#options;
    const isInFile = usesFile || queue === file;
    let saved: object | undefined;
    const work = () => {
      saved = { ...counters };
      // The memory commits after the file, because only the commit of the file can fail.
      return usesFile && queue !== file ? file.transaction(run) : run();
    };
    try {
      const result = queue.transaction(work);
      // A transaction in memory does not show that the file can be written.
      if (isInFile) this.failure = undefined;
      return result;
    } catch (error) {
      Object.assign(counters, saved);
      if (!isValueError(error)) this.failure = (error as Error).message;
      throw error;
    }
  }

  commit(): void {
    const writes = this.#writes;
    if (writes.length === 0 || this.#held !== undefined) return;
    this.#writes = [];
    try {
      const results = this.writeNow(() => writes.map(({ run }) => run()), false);
      for (const [index, { resolve }] of writes.entries()) resolve(results[index]);
    } catch (error) {
      for (const { reject } of writes) reject(error);
    }
  }
}

/** SQLite's result codes for errors caused by a value. Any other error would affect every write. */
const VALUE_ERRORS = new Set<number | undefined>([18 /* TOOBIG */, 19 /* CONSTRAINT */, 20 /* MISMATCH */]);

export function isValueError(error: unknown): boolean {
  return VALUE_ERRORS.has(resultCode(error));
}
