import type { DeadLetter } from './driver.ts';
import { Fifo } from './fifo.ts';

export interface DeadLetterBounds {
  maxLength: number;
  maxBytes: number;
}

export const deadLetterBounds: DeadLetterBounds = { maxLength: 10_000, maxBytes: 32 * 1024 * 1024 };

/** The tasks that were given up. Past either bound the oldest go out, and are counted. */
export class DeadLetters {
  readonly #bounds: DeadLetterBounds;
  readonly #letters = new Fifo<DeadLetter>();
  #bytes = 0;
  #dropped = 0;

  constructor(bounds: DeadLetterBounds = deadLetterBounds) {
    this.#bounds = bounds;
  }

  get size(): number {
    return this.#letters.size;
  }

  get dropped(): number {
    return this.#dropped;
  }

  /** @returns those that had to go out for it */
  add(letter: DeadLetter): DeadLetter[] {
    const dropped: DeadLetter[] = [];
    this.#letters.push(letter);
    this.#bytes += Buffer.byteLength(letter.message.body);
    while (this.size > this.#bounds.maxLength || this.#bytes > this.#bounds.maxBytes) {
      const oldest = this.#letters.shift();
      if (oldest === undefined) break;
      this.#bytes -= Buffer.byteLength(oldest.message.body);
      this.#dropped += 1;
      dropped.push(oldest);
    }
    return dropped;
  }

  /** Oldest first. */
  list(): DeadLetter[] {
    return [...this.#letters];
  }
}
