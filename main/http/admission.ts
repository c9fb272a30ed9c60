import { TurnLimit } from './turn-limit.ts';

/** Number of request bytes after which no further request is admitted in the same event loop turn. */
export const TURN_BYTES = 256 * 1024;
const MIN_COST_BYTES = 1024;

/** Spreads requests over event loop turns, so that ticks and health checks do not wait for many requests. */
export class Admission {
  readonly #turns = new TurnLimit(TURN_BYTES);

  /** Waits until a request may be processed. @param cost processing cost in bytes, for example the body size */
  enter(cost = 0): Promise<void> {
    return new Promise((enter) => this.#turns.defer(Math.max(cost, MIN_COST_BYTES), enter));
  }
}
