import { backoff } from '../shared/backoff.ts';
import { Refused } from './tasks-api.ts';

const CALM_MS = 2_000;
const EAGER_MS = 100;
/** By how much the wait grows from look to look while something is expected, up to the calm one. */
const GROWTH = 1.3;

/** How the last look at the service went; `at` is the time of the next one. */
export type PollState =
  | { kind: 'live' }
  | { kind: 'failing'; error: string; at: number }
  | { kind: 'reconnecting'; at: number };

export interface PollerOptions {
  /** Looks once; rejects when that failed. */
  look(): Promise<void>;
  /** Whether something is expected to change soon. */
  expecting(): boolean;
  onState(state: PollState): void;
}

/** Looks at the service again and again: often while something is expected, ever more rarely while it fails. */
export class Poller {
  readonly #options: PollerOptions;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #wait = EAGER_MS;
  #failures = 0;
  #stopped = true;
  #looking = false;
  #again = false;

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

  stop(): void {
    this.#stopped = true;
    clearTimeout(this.#timer);
  }

  async #look(): Promise<void> {
    const { look, expecting, onState } = this.#options;
    this.#looking = true;
    let delay: number;
    try {
      await look();
      this.#failures = 0;
      this.#wait = Math.min(this.#wait * GROWTH, CALM_MS);
      delay = expecting() ? this.#wait : CALM_MS;
      onState({ kind: 'live' });
    } catch (error) {
      delay = backoff(this.#failures++);
      const at = Date.now() + delay;
      onState(error instanceof Refused ? { kind: 'failing', error: error.message, at } : { kind: 'reconnecting', at });
    }
    this.#looking = false;
    if (this.#stopped) return;
    if (this.#again) delay = 0;
    this.#again = false;
    this.#timer = setTimeout(() => void this.#look(), delay);
  }
}
