import {
  type DeadLetterFilter,
  type DeadLetterReasons,
  type DeadLetterSelection,
  type ListedDeadLetter,
  mostFrequent,
  type ReasonCount,
  UnknownDeadLetter,
} from './dead-letter-operations.ts';
import type { DeadLetter, Progress } from './queue.ts';
import { textMemoryBytes } from './text-memory.ts';

/** Limits on the number of dead letters and on the memory for their bodies, reasons and histories, in bytes. */
export const deadLetterBounds = { maxLength: 10_000, maxBytes: 32 * 1024 * 1024 };

/** Dead letters of a queue, in memory. Evicts the oldest dead letters if a limit is exceeded. */
export class DeadLetterStore {
  /** Number of dead letters that were evicted or purged. */
  dropped = 0;
  evicted = 0;
  readonly #bounds: typeof deadLetterBounds;
  /** Dead letters by task id, oldest first. */
  readonly #letters = new Map<string, DeadLetter>();
  readonly #removing = new Map<string, 'redrive' | 'purge'>();
  #bytes = 0;

  constructor(bounds = deadLetterBounds) {
    this.#bounds = bounds;
  }

  /** Number of dead letters, including dead letters that are being removed. */
  get size(): number {
    return this.#letters.size;
  }

  /** Adds a dead letter, and returns the dead letters that were evicted as a result. */
  add(letter: DeadLetter): DeadLetter[] {
    this.#letters.set(letter.id, letter);
    this.#bytes += textMemoryBytes(letter);
    return this.#evict();
  }

  /** Returns undefined if the dead letter does not exist or is being removed. */
  get(id: string): DeadLetter | undefined {
    return this.#removing.has(id) ? undefined : this.#letters.get(id);
  }

  find(id: string): Progress | undefined {
    const letter = this.#letters.get(id);
    if (letter === undefined) return undefined;
    const { body, acceptedAt } = letter;
    const isRedriven = this.#removing.get(id) === 'redrive';
    return isRedriven ? { state: 'queued', body, acceptedAt, history: [] } : { state: 'failed', letter };
  }

  /** Returns up to `limit` dead letters, newest first. @throws {UnknownDeadLetter} if `before` does not exist */
  newest(limit: number, { before, reason }: DeadLetterFilter = {}): ListedDeadLetter[] {
    if (before !== undefined && this.get(before) === undefined) throw new UnknownDeadLetter();
    const older = before === undefined ? this.list() : this.#olderThan(before);
    const matching = reason === undefined ? older : older.filter((letter) => letter.reason === reason);
    const newest = limit > 0 ? matching.slice(-limit).reverse() : [];
    return newest.map((letter) => ({ bytes: listedBytes(letter), read: async () => this.get(letter.id) }));
  }

  select(selection: DeadLetterSelection): DeadLetter[] {
    if ('all' in selection) return this.list();
    if ('reason' in selection) return this.list().filter(({ reason }) => reason === selection.reason);
    const ids = new Set(selection.ids);
    return this.list().filter(({ id }) => ids.has(id));
  }

  reasons(): DeadLetterReasons {
    const counts = new Map<string, ReasonCount>();
    for (const { reason, permanent } of this.list()) {
      const known = counts.get(reason);
      if (known === undefined) counts.set(reason, { reason, count: 1, permanent });
      else {
        known.count += 1;
        known.permanent &&= permanent;
      }
    }
    return mostFrequent([...counts.values()]);
  }

  /** Marks a dead letter as being removed. Must be followed by `finishRemoval` or `undoRemoval`. */
  startRemoval(letter: DeadLetter, kind: 'redrive' | 'purge'): void {
    this.#removing.set(letter.id, kind);
    this.#bytes -= textMemoryBytes(letter);
  }

  /** Undoes `startRemoval`, and returns the dead letters that were evicted as a result. */
  undoRemoval(letter: DeadLetter): DeadLetter[] {
    this.#removing.delete(letter.id);
    this.#bytes += textMemoryBytes(letter);
    return this.#evict();
  }

  finishRemoval({ id }: DeadLetter): void {
    if (this.#removing.get(id) === 'purge') this.dropped += 1;
    this.#removing.delete(id);
    this.#letters.delete(id);
  }

  drop(letter: DeadLetter): void {
    if (this.#letters.delete(letter.id)) this.#bytes -= textMemoryBytes(letter);
    this.dropped += 1;
  }

  /** Returns all dead letters that are not being removed, oldest first. */
  list(): DeadLetter[] {
    const letters = [...this.#letters.values()];
    return this.#removing.size === 0 ? letters : letters.filter(({ id }) => !this.#removing.has(id));
  }

  #olderThan(before: string): DeadLetter[] {
    const letters = this.list();
    return letters.slice(
      0,
      letters.findIndex(({ id }) => id === before),
    );
  }

  #evict(): DeadLetter[] {
    const { maxLength, maxBytes } = this.#bounds;
    const evicted: DeadLetter[] = [];
    for (const oldest of this.#letters.values()) {
      if (this.#letters.size - this.#removing.size <= maxLength && this.#bytes <= maxBytes) break;
      if (this.#removing.has(oldest.id)) continue;
      this.drop(oldest);
      this.evicted += 1;
      evicted.push(oldest);
    }
    return evicted;
  }
}

function listedBytes({ body, reason, history }: DeadLetter): number {
  let bytes = Buffer.byteLength(body) + Buffer.byteLength(reason);
  for (const attempt of history) bytes += Buffer.byteLength(attempt.reason);
  return bytes;
}
