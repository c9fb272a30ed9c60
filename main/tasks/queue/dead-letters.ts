import type { DeadLetter, ListedDeadLetter, Progress } from './queue.ts';
import { textMemoryBytes } from './text-memory.ts';

/** Limits on the number of dead letters and on the memory used by their bodies and reasons; see `textMemoryBytes`. */
export const deadLetterBounds = { maxLength: 10_000, maxBytes: 32 * 1024 * 1024 };

/** Dead letters of a queue, in memory. Evicts the oldest dead letters if a limit is exceeded. */
export class DeadLetters {
  /** Number of dead letters that were evicted or purged. */
  dropped = 0;
  evicted = 0;
  readonly #bounds: typeof deadLetterBounds;
  /** Dead letters by task id, oldest first. */
  readonly #letters = new Map<string, DeadLetter>();
  /** Dead letters whose redrive is being written, by task id. */
  readonly #redriving = new Map<string, DeadLetter>();
  #bytes = 0;

  constructor(bounds = deadLetterBounds) {
    this.#bounds = bounds;
  }

  /** Number of dead letters, including those that are being redriven. */
  get size(): number {
    return this.#letters.size + this.#redriving.size;
  }

  /** Adds a dead letter. @returns the dead letters that were evicted as a result */
  add(letter: DeadLetter): DeadLetter[] {
    const evicted: DeadLetter[] = [];
    this.#letters.set(letter.id, letter);
    this.#bytes += textMemoryBytes(letter);
    for (const oldest of this.#letters.values()) {
      if (this.#letters.size <= this.#bounds.maxLength && this.#bytes <= this.#bounds.maxBytes) break;
      this.drop(oldest);
      this.evicted += 1;
      evicted.push(oldest);
    }
    return evicted;
  }

  get(id: string): DeadLetter | undefined {
    return this.#letters.get(id);
  }

  find(id: string): Progress | undefined {
    const redriven = this.#redriving.get(id);
    if (redriven !== undefined) return { state: 'queued', body: redriven.body, acceptedAt: redriven.acceptedAt };
    const letter = this.#letters.get(id);
    return letter && { state: 'failed', letter };
  }

  /** Returns the newest dead letters, newest first. */
  newest(limit: number): ListedDeadLetter[] {
    const newest = this.list().slice(-limit).reverse();
    return newest.map(({ id, body }) => ({ bytes: Buffer.byteLength(body), read: async () => this.get(id) }));
  }

  /** Removes a dead letter before its redrive is written. @returns a function to call when the write has ended */
  startRedrive(letter: DeadLetter): () => void {
    this.#remove(letter);
    this.#redriving.set(letter.id, letter);
    return () => this.#redriving.delete(letter.id);
  }

  /** Removes an evicted or purged dead letter, and counts it in `dropped`. */
  drop(letter: DeadLetter): void {
    this.#remove(letter);
    this.dropped += 1;
  }

  /** Returns all dead letters, oldest first. */
  list(): DeadLetter[] {
    return [...this.#letters.values()];
  }

  #remove(letter: DeadLetter): void {
    if (this.#letters.delete(letter.id)) this.#bytes -= textMemoryBytes(letter);
  }
}
