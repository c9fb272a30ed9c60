/** Delays while nothing can be written. */
const SHORTEST_MS = 100;
const LONGEST_MS = 5000;

/** A pause after a failed write, longer after each failure until a write succeeds. */
export class Pause {
  readonly #onOver: () => void;
  #timer: NodeJS.Timeout | undefined;
  #reason: string | undefined;
  #failures = 0;

  /** @param onOver called when a pause ends */
  constructor(onOver: () => void) {
    this.#onOver = onOver;
  }

  get on(): boolean {
    return this.#timer !== undefined;
  }

  /** Reason of the last pause; undefined once a write has succeeded. */
  get reason(): string | undefined {
    return this.#reason;
  }

  /** @returns the length of the pause in milliseconds; undefined during a pause, which goes on unchanged */
  start(reason: string): number | undefined {
    if (this.on) return undefined;
    const delayMs = Math.min(LONGEST_MS, SHORTEST_MS * 2 ** this.#failures++);
    this.#reason = reason;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#onOver();
    }, delayMs);
    return delayMs;
  }

  /** Called after a successful write: the next pause is the shortest again. */
  reset(): void {
    this.#failures = 0;
    this.#reason = undefined;
  }

  /** Cancels the end of the current pause. */
  stop(): void {
    clearTimeout(this.#timer);
  }
}
