import { backoff } from '../shared/backoff.ts';
import { Refused } from './tasks-api.ts';

const CALM_MS = 2_000;
/** Milliseconds between polls while events report all changes and no change is expected soon. */
const RARE_MS = 30_000;
/** Milliseconds between an event and the poll it triggers, so that a burst of events triggers only one poll. */
const HINT_MS = 100;
const EAGER_MS = 100;
/** Factor by which the interval between polls grows while a change is expected, up to {@link CALM_MS}. */
const GROWTH = 1.3;

/** Result of the last poll. `at` is the time of the next poll in milliseconds since the epoch. */
export type PollState =
  | { kind: 'live' }
  | { kind: 'failing'; error: string; at: number }
  | { kind: 'signed-out' }
  | { kind: 'reconnecting'; at: number };

export interface PollerOptions {
  /** Polls once. Rejects on failure. */
  look(): Promise<void>;
  /** Returns whether a change is expected soon, which shortens the interval between polls. */
  expecting(): boolean;
  /** Returns whether `hint` is called for every change, which makes frequent polls unnecessary. */
  hinted(): boolean;
  onState(state: PollState): void;
}

/**
 * Polls the service frequently while a change is expected, and with growing delays after failures. Stops polling when the
 * user is signed out, until `now` is called.
 */
export class Poller {
  readonly #options: PollerOptions;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #wait = EAGER_MS;
  #failures = 0;
  #stopped = true;
  #looking = false;
  #again = false;
  #hint: ReturnType<typeof setTimeout> | undefined;

  constructor(options: PollerOptions) {
    this.#options = options;
  }

  /** Polls immediately, and resets the interval between polls to its minimum. */
  now(): void {
    this.#stopped = false;
    this.#wait = EAGER_MS;
    clearTimeout(this.#timer);
    if (this.#looking) this.#again = true;
    else void this.#look();
  }

  /** Polls after {@link HINT_MS}. Called when an event reports a change. */
  hint(): void {
    this.#hint ??= setTimeout(() => {
      this.#hint = undefined;
      if (!this.#stopped && this.#failures === 0) this.now();
    }, HINT_MS);
  }

  stop(): void {
    this.#stopped = true;
    clearTimeout(this.#timer);
  }

  async #look(): Promise<void> {
    const { look, onState } = this.#options;
    this.#looking = true;
    let delay: number;
    try {
      await look();
      this.#failures = 0;
      this.#wait = Math.min(this.#wait * GROWTH, CALM_MS);
      delay = this.#delay();
      onState({ kind: 'live' });
    } catch (error) {
      delay = this.#failed(error);
    }
    this.#looking = false;
    if (this.#stopped) return;
    if (this.#again) delay = 0;
    this.#again = false;
    this.#timer = setTimeout(() => void this.#look(), delay);
  }

  /** Reports a failed poll. @returns milliseconds until the next poll */
  #failed(error: unknown): number {
    const { onState } = this.#options;
    if (error instanceof Refused && error.signedOut) {
      this.#failures = 0;
      // Stops polling until the user signs in, unless `now` was called during this poll.
      this.#stopped = !this.#again;
      if (this.#stopped) onState({ kind: 'signed-out' });
      return 0;
    }
    const delay = backoff(this.#failures++);
    const at = Date.now() + delay;
    onState(error instanceof Refused ? { kind: 'failing', error: error.message, at } : { kind: 'reconnecting', at });
    return delay;
  }

  /** Returns the delay in milliseconds after a successful poll. */
  #delay(): number {
    const { expecting, hinted } = this.#options;
    if (hinted()) return expecting() ? CALM_MS : RARE_MS;
    return expecting() ? this.#wait : CALM_MS;
  }
}
