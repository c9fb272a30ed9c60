import { Turns } from './turns.ts';

/** Maximum total cost, in bytes, of the requests admitted in one event loop turn. Only the last one may exceed it. */
export const TURN_BYTES = 256 * 1024;
/** Minimum cost of a request, in bytes. A cheaper request counts as this much. */
const MIN_COST = 1024;

/** Lets each request wait for an event loop turn, so that ticks, health probes and messages from threads are handled in between. */
export class Admission {
  readonly #turns = new Turns(TURN_BYTES);

  /** Waits until the request is admitted. @param cost bytes that it parses or writes; slower work counts as more bytes */
  enter(cost = 0): Promise<void> {
    return new Promise((enter) => this.#turns.defer(Math.max(cost, MIN_COST), enter));
  }
}
