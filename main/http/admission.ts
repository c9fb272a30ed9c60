/** Bytes of work that one turn of the event loop has room for. */
export const TURN_BYTES = 256 * 1024;
/** Cost of a small request. */
const MIN_COST = 1024;

/**
 * Admits requests to their work on the event loop, in order: up to {@link TURN_BYTES} in each turn, and whatever the last
 * one has beyond that. Timers, ticks, health probes and the messages of threads come between two turns. No more requests
 * wait here than there are connections.
 */
export class Admission {
  #waiting: { cost: number; enter: () => void }[] = [];

  /** Waits for the turn of a request. @param cost bytes to parse or to write, or more if other work outweighs them */
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
