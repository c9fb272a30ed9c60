import { TurnLimit } from './turn-limit.ts';

/** Maximum total cost, in bytes, of the requests admitted in one event loop turn. The last request may exceed it. */
export const TURN_BYTES = 256 * 1024;
/** Minimum cost of a request, in bytes. */
const MIN_COST = 1024;

/** Spreads requests over event loop turns, so that ticks and health probes are handled in between. */
export class Admission {
  readonly #turns = new TurnLimit(TURN_BYTES);

  /**
   * Waits until the request is admitted.
   *
   * @param cost number of bytes to process, or a higher number if processing is slow
   */
  enter(cost = 0): Promise<void> {
    return new Promise((enter) => this.#turns.defer(Math.max(cost, MIN_COST), enter));
  }
}
