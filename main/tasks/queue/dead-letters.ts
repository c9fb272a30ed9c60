import { heldBytes } from './held-bytes.ts';
import type { DeadLetter } from './queue.ts';

export interface DeadLetterBounds {
  /** Most dead letters. */
  maxLength: number;
  /** Most bytes of memory for bodies and reasons; see `heldBytes`. */
  maxBytes: number;
}

export const deadLetterBounds: DeadLetterBounds = { maxLength: 10_000, maxBytes: 32 * 1024 * 1024 };

/** The dead letters of a queue, in memory. Above either bound, the oldest are evicted. */
export class DeadLetters {
  readonly #bounds: DeadLetterBounds;
  /** Dead letters by task id, oldest first. */
  readonly #letters = new Map<string, DeadLetter>();
  #bytes = 0;
  #dropped = 0;
  #evicted = 0;

  constructor(bounds: DeadLetterBounds = deadLetterBounds) {
    this.#bounds = bounds;
  }

  get size(): number {
    return this.#letters.size;
  }

  /** Number of dead letters that were evicted or purged. */
  get dropped(): number {
    return this.#dropped;
  }

  /** Number of dead letters that were evicted. */
  get evicted(): number {
    return this.#evicted;
  }

  /** Adds a dead letter. @returns the dead letters that were evicted for it */
  add(letter: DeadLetter): DeadLetter[] {
    const evicted: DeadLetter[] = [];
    this.#letters.set(letter.id, letter);
    this.#bytes += heldBytes(letter);
    for (const oldest of this.#letters.values()) {
      if (this.size <= this.#bounds.maxLength && this.#bytes <= this.#bounds.maxBytes) break;
      this.drop(oldest);
      this.#evicted += 1;
      evicted.push(oldest);
    }
    return evicted;
  }

  get(id: string): DeadLetter | undefined {
    return this.#letters.get(id);
  }

  /** Removes a dead letter that is redriven. */
  take(letter: DeadLetter): void {
    if (this.#letters.delete(letter.id)) this.#bytes -= heldBytes(letter);
  }

  /** Removes a dead letter that is evicted or purged, and counts it. */
  drop(letter: DeadLetter): void {
    this.take(letter);
    this.#dropped += 1;
  }

  /** Returns all dead letters, oldest first. */
  list(): DeadLetter[] {
    return [...this.#letters.values()];
  }
}
