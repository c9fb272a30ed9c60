const SHORTEST_MS = 100;
const LONGEST_MS = 5000;

/** A backoff after a failed write, during which no deliveries are taken. Its length doubles with each failure until a write succeeds. */
export class WriteBackoff {
  /** Reason for the last backoff; undefined once a write has succeeded. */
  reason: string | undefined;
  readonly #onOver: () => void;
  #timer: NodeJS.Timeout | undefined;
  #failures = 0;

  /** @param onOver called when a backoff ends */
  constructor(onOver: () => void) {
    this.#onOver = onOver;
  }

  /** Whether a backoff is active. */
  get on(): boolean {
    return this.#timer !== undefined;
  }

  /** Starts a backoff unless one is active. @returns the length in milliseconds, or undefined if a backoff is active */
  start(reason: string): number | undefined {
    if (this.on) return undefined;
    const delayMs = Math.min(LONGEST_MS, SHORTEST_MS * 2 ** this.#failures++);
    this.reason = reason;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#onOver();
    }, delayMs);
    return delayMs;
  }

  /** Resets the length of the next backoff to the minimum. Called after a successful write. */
  reset(): void {
    this.#failures = 0;
    this.reason = undefined;
  }

  /** Stops the timer of the current backoff, so that `onOver` is not called. */
  stop(): void {
    clearTimeout(this.#timer);
  }
}
