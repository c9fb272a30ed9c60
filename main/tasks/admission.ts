import { Fifo } from './queue/fifo.ts';

/** Submissions that one turn of the event loop has room for: no more than tasks leave the queue in one, or it grows. */
const ROOM = 5;
/** What a listing costs, in submissions. */
export const LISTING = ROOM;

/**
 * Lets requests in, a few in each turn of the event loop. What the pool's threads have done is heard of once a turn, and
 * until then they wait: a turn that is full of requests would leave them idle. Answers that go out together cost less, too.
 * No more requests wait here than there are connections.
 */
export class Admission {
  readonly #waiting = new Fifo<{ cost: number; enter: () => void }>();

  /** Fulfilled when it is the turn of a request that costs as much as so many submissions. */
  enter(cost = 1): Promise<void> {
    return new Promise((enter) => {
      this.#waiting.push({ cost, enter });
      if (this.#waiting.size === 1) setImmediate(() => this.#admit());
    });
  }

  #admit(): void {
    for (let room = ROOM; room > 0; ) {
      const next = this.#waiting.shift();
      if (next === undefined) return;
      room -= next.cost;
      next.enter();
    }
    if (this.#waiting.size > 0) setImmediate(() => this.#admit());
  }
}
