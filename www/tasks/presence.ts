/** A hidden page counts as absent after this delay, so that a short visit to another browser tab has no effect. */
const GRACE_MS = 3_000;

/** Whether the page is present: visible, or hidden for less than {@link GRACE_MS}. Leaving the page makes it absent. */
export class Presence {
  readonly #listeners: { onPresent(): void; onAbsent(): void };
  #isPresent = false;
  #timer: ReturnType<typeof setTimeout> | undefined;

  /** @param listeners called when the page is shown, and {@link GRACE_MS} after the page was hidden */
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

  /** Makes a hidden page count as absent without delay. */
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
