const INTERVAL_MS = 100;

/** Calls its subscribers after changes, at most ten times per second, and not while the page is hidden. */
export class RenderSchedule {
  readonly #subscribers = new Set<() => void>();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #renderedAt = Number.NEGATIVE_INFINITY;
  #isDue = false;

  constructor() {
    document.addEventListener('visibilitychange', () => {
      if (this.#isDue) this.request();
    });
  }

  /** @returns a function that unsubscribes */
  subscribe(subscriber: () => void): () => void {
    this.#subscribers.add(subscriber);
    return () => this.#subscribers.delete(subscriber);
  }

  request(): void {
    this.#isDue = true;
    if (document.visibilityState === 'hidden') return;
    const delayMs = Math.max(0, this.#renderedAt + INTERVAL_MS - performance.now());
    this.#timer ??= setTimeout(() => this.#render(), delayMs);
  }

  #render(): void {
    this.#timer = undefined;
    this.#isDue = false;
    for (const subscriber of this.#subscribers) {
      try {
        subscriber();
      } catch (error) {
        // An error of one subscriber must not prevent the calls of further subscribers.
        reportError(error);
      }
    }
    // Set after rendering, so that slow rendering still leaves `INTERVAL_MS` for user input.
    this.#renderedAt = performance.now();
  }
}
