import { heldBytes } from './held-bytes.ts';
import type { DeadLetter } from './queue.ts';

export interface DeadLetterBounds {
  maxLength: number;
  /** Bytes of memory for bodies and reasons; see `heldBytes`. */
  maxBytes: number;
}

export const deadLetterBounds: DeadLetterBounds = { maxLength: 10_000, maxBytes: 32 * 1024 * 1024 };

/** The dead letters of a queue in memory. Past either bound the oldest are evicted and counted. */
export class DeadLetters {
  readonly #bounds: DeadLetterBounds;
  /** Oldest first. */
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

  get dropped(): number {
    return this.#dropped;
  }

  /** Letters that were removed because of a bound. */
  get evicted(): number {
    return this.#evicted;
  }

  /** @returns those that had to go out for it */
  add(letter: DeadLetter): DeadLetter[] {
    const dropped: DeadLetter[] = [];
    this.#letters.set(letter.id, letter);
    this.#bytes += heldBytes(letter);
    for (const oldest of this.#letters.values()) {
      if (this.size <= this.#bounds.maxLength && this.#bytes <= this.#bounds.maxBytes) break;
      this.drop(oldest);
      this.#evicted += 1;
      dropped.push(oldest);
    }
    return dropped;
  }

  get(id: string): DeadLetter | undefined {
    return this.#letters.get(id);
  }

  /** Takes a letter out, for a second try. */
  take(letter: DeadLetter): void {
    if (this.#letters.delete(letter.id)) this.#bytes -= heldBytes(letter);
  }

  /** Takes a letter out for good. */
  drop(letter: DeadLetter): void {
    this.take(letter);
    this.#dropped += 1;
  }

  /** Oldest first. */
  list(): DeadLetter[] {
    return [...this.#letters.values()];
  }
}
