import { backoff } from '../shared/backoff.ts';
import { Refused } from './tasks-api.ts';

const CALM_MS = 2_000;
/** While the service tells of what happens by itself. */
const RARE_MS = 30_000;
/** From being told of something to the look at it: a hundred events are one look. */
const HINT_MS = 100;
const EAGER_MS = 100;
/** By how much the wait grows from look to look while something is expected, up to the calm one. */
const GROWTH = 1.3;

/** How the last look at the service went; `at` is the time of the next one. */
export type PollState =
  | { kind: 'live' }
  | { kind: 'failing'; error: string; at: number }
  | { kind: 'signed-out' }
  | { kind: 'reconnecting'; at: number };

export interface PollerOptions {
  /** Looks once; rejects when that failed. */
  look(): Promise<void>;
  /** Whether something is expected to change soon. */
  expecting(): boolean;
  /** Whether `hint` is called when something changes. */
  hinted(): boolean;
  onState(state: PollState): void;
}

/**
 * Looks at the service again and again: when it is told to, often while something is expected, ever more rarely while it
 * fails, and not while the user is signed out.
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

  /** Looks now, and eagerly from now on where something is expected. */
  now(): void {
    this.#stopped = false;
    this.#wait = EAGER_MS;
    clearTimeout(this.#timer);
    if (this.#looking) this.#again = true;
    else void this.#look();
  }

  /** Something has changed: looks in a moment. */
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

  /** Reports a failed look. @returns milliseconds until the next one */
  #failed(error: unknown): number {
    const { onState } = this.#options;
    if (error instanceof Refused && error.signedOut) {
      this.#failures = 0;
      // Until the user signs in, which may have happened during the look.
      this.#stopped = !this.#again;
      if (this.#stopped) onState({ kind: 'signed-out' });
      return 0;
    }
    const delay = backoff(this.#failures++);
    const at = Date.now() + delay;
    onState(error instanceof Refused ? { kind: 'failing', error: error.message, at } : { kind: 'reconnecting', at });
    return delay;
  }

  /** How long a look that succeeded holds. */
  #delay(): number {
    const { expecting, hinted } = this.#options;
    if (hinted()) return expecting() ? CALM_MS : RARE_MS;
    return expecting() ? this.#wait : CALM_MS;
  }
}
