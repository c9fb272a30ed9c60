/** Milliseconds for which a page counts as present after it was hidden, so that a short look elsewhere costs nothing. */
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

  /** Ends the grace period of a hidden page. */
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
