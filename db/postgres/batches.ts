import { setImmediate } from 'node:timers/promises';
import { DatabaseUnavailable, ValueRefused } from '../task-store.ts';

interface Waiting<Item, Result> {
  item: Item;
  bytes: number;
  resolve: (result: Result) => void;
  reject: (error: unknown) => void;
}

/** Bounds of a batch. A larger item is written alone. */
const BATCH = { maxLength: 1000, maxBytes: 8 * 1024 * 1024 };
/** Bounds of the items that wait. A larger item waits alone. */
const WAITING = { maxLength: 10_000, maxBytes: 64 * 1024 * 1024 };

/**
 * Writes items in batches, one batch at a time: the items of an event loop turn, and the items that were added while
 * the batch before was written. If PostgreSQL refuses a value, the items of the batch are written one by one. If
 * PostgreSQL is unavailable, all items are rejected. Besides the batch that is being written, at most 10,000 items wait,
 * of at most 64 MiB in total.
 */
export class Batches<Item, Result> {
  readonly #write: (items: readonly Item[]) => Promise<readonly Result[]>;
  readonly #bytesOf: (item: Item) => number;
  readonly #maxLength: number;
  #waiting: Waiting<Item, Result>[] = [];
  #waitingBytes = 0;
  #running: Promise<void> | undefined;

  constructor(
    write: (items: readonly Item[]) => Promise<readonly Result[]>,
    bytesOf: (item: Item) => number,
    maxLength = BATCH.maxLength,
  ) {
    this.#write = write;
    this.#bytesOf = bytesOf;
    this.#maxLength = maxLength;
  }

  /** Resolves with the item's result once its batch is written. @throws {DatabaseUnavailable} if too many items wait */
  async add(item: Item): Promise<Result> {
    const bytes = this.#bytesOf(item);
    const { length } = this.#waiting;
    if (length >= WAITING.maxLength || (length > 0 && this.#waitingBytes + bytes > WAITING.maxBytes))
      throw new DatabaseUnavailable('too many writes wait for PostgreSQL');
    return new Promise((resolve, reject) => {
      this.#waiting.push({ item, bytes, resolve, reject });
      this.#waitingBytes += bytes;
      this.#running ??= setImmediate().then(() => this.#run());
    });
  }

  /** Resolves when all items that were added are written or have failed. */
  async drained(): Promise<void> {
    await this.#running;
  }

  async #run(): Promise<void> {
    while (this.#waiting.length > 0) await this.#writeAll(this.#next());
    this.#running = undefined;
  }

  /** Returns at least one item. */
  #next(): Waiting<Item, Result>[] {
    let total = 0;
    const end = this.#waiting.findIndex(({ bytes }, index) => {
      total += bytes;
      return index === this.#maxLength || (index > 0 && total > BATCH.maxBytes);
    });
    return this.#shift(end === -1 ? this.#waiting.length : end);
  }

  #shift(count: number): Waiting<Item, Result>[] {
    const items = this.#waiting.splice(0, count);
    for (const { bytes } of items) this.#waitingBytes -= bytes;
    return items;
  }

  async #writeAll(batch: readonly Waiting<Item, Result>[]): Promise<void> {
    try {
      const results = await this.#write(batch.map(({ item }) => item));
      for (const [index, { resolve }] of batch.entries()) resolve(results[index] as Result);
    } catch (error) {
      if (error instanceof ValueRefused && batch.length > 1) await this.#writeSingly(batch);
      else this.#rejectAll(batch, error);
    }
  }

  async #writeSingly(batch: readonly Waiting<Item, Result>[]): Promise<void> {
    for (const [index, each] of batch.entries()) {
      try {
        const [result] = await this.#write([each.item]);
        each.resolve(result as Result);
      } catch (error) {
        if (error instanceof DatabaseUnavailable) return this.#rejectAll(batch.slice(index), error);
        each.reject(error);
      }
    }
  }

  /** Rejects items, and all that wait if PostgreSQL is unavailable, because each batch would wait for its timeout. */
  #rejectAll(items: readonly Waiting<Item, Result>[], error: unknown): void {
    const others = error instanceof DatabaseUnavailable ? this.#shift(this.#waiting.length) : [];
    for (const { reject } of [...items, ...others]) reject(error);
  }
}
