/** Waits while nothing can be written. */
const SHORTEST_MS = 100;
const LONGEST_MS = 5000;

/** A pause of all work, because what is done could not be written down: longer each time, until something could. */
export class Pause {
  readonly #onOver: () => void;
  #timer: NodeJS.Timeout | undefined;
  #reason: string | undefined;
  #inARow = 0;

  /** @param onOver told when a pause is over */
  constructor(onOver: () => void) {
    this.#onOver = onOver;
  }

  get on(): boolean {
    return this.#timer !== undefined;
  }

  /** Why there was the last one; undefined once something could be written again. */
  get reason(): string | undefined {
    return this.#reason;
  }

  /** @returns how long it takes, in milliseconds; undefined where there is one already */
  begin(reason: string): number | undefined {
    if (this.on) return undefined;
    const delayMs = Math.min(LONGEST_MS, SHORTEST_MS * 2 ** this.#inARow++);
    this.#reason = reason;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#onOver();
    }, delayMs);
    return delayMs;
  }

  /** Something could be written. */
  forget(): void {
    this.#inARow = 0;
    this.#reason = undefined;
  }

  /** It is never over. */
  stop(): void {
    clearTimeout(this.#timer);
  }
}
