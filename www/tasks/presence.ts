/** Delay before a hidden page counts as absent, so that a short visit to another tab has no effect. */
const GRACE_MS = 3_000;

/** Tells whether the user can see the page. A page in the back/forward cache is absent. */
export class Presence {
  readonly #listeners: { onPresent(): void; onAbsent(): void };
  #isPresent = false;
  #timer: ReturnType<typeof setTimeout> | undefined;

  /** Calls `onPresent` when the page is shown, and `onAbsent` {@link GRACE_MS} after it was hidden. */
  constructor(listeners: { onPresent(): void; onAbsent(): void }) {
    this.#listeners = listeners;
    document.addEventListener('visibilitychange', () => this.#update());
    addEventListener('pagehide', () => this.#leave());
    addEventListener('pageshow', () => this.#update());
    this.#isPresent = document.visibilityState === 'visible';
  }

  get isPresent(): boolean {
    return this.#isPresent;
  }

  /** If the page is hidden, makes it count as absent immediately. */
  yield(): void {
    if (document.visibilityState === 'hidden') this.#leave();
  }

  #update(): void {
    clearTimeout(this.#timer);
    if (document.visibilityState === 'hidden') {
      this.#timer = setTimeout(() => this.#leave(), GRACE_MS);
    } else if (!this.#isPresent) {
      this.#isPresent = true;
      this.#listeners.onPresent();
    }
  }

  #leave(): void {
    clearTimeout(this.#timer);
    if (!this.#isPresent) return;
    this.#isPresent = false;
    this.#listeners.onAbsent();
  }
}
