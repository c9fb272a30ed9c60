/** Total cost of the requests admitted in one event loop turn, in bytes. */
export const TURN_BYTES = 256 * 1024;
/** Minimum cost of a request. */
const MIN_COST = 1024;

/**
 * Spreads the work of requests over event loop turns, in order, so that ticks, health probes and messages of threads come in between.
 * Each turn admits requests up to a cost of {@link TURN_BYTES}, which only the last one may exceed.
 */
export class Admission {
  #waiting: { cost: number; enter: () => void }[] = [];

  /** Waits until a request is admitted. @param cost bytes to parse or to write, or more if other work takes longer */
  enter(cost = 0): Promise<void> {
    return new Promise((enter) => {
      this.#waiting.push({ cost: Math.max(cost, MIN_COST), enter });
      if (this.#waiting.length === 1) setImmediate(() => this.#admit());
    });
  }

  #admit(): void {
    let admitted = 0;
    for (let room = TURN_BYTES; room > 0 && admitted < this.#waiting.length; admitted++) {
      room -= (this.#waiting[admitted] as { cost: number }).cost;
    }
    for (const { enter } of this.#waiting.splice(0, admitted)) enter();
    if (this.#waiting.length > 0) setImmediate(() => this.#admit());
  }
}
