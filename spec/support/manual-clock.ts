import type { Clock } from '../../workers/shared/clock.ts';

export function sleepOn(clock: Pick<Clock, 'timer'>, delayMs: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const end = () => {
      cancel();
      // A signal that lives as long as its process would keep the listeners of all sleeps.
      signal?.removeEventListener('abort', end);
      resolve();
    };
    const cancel = clock.timer(delayMs, end);
    signal?.addEventListener('abort', end);
  });
}

/** A clock that only the spec advances. */
export class ManualClock implements Clock {
  /** Time at which no time had elapsed. */
  #origin: number;
  #elapsed = 0;
  readonly #timers = new Set<{ at: number; run: () => void }>();

  /** @param now milliseconds since the epoch */
  constructor(now = 1_790_000_000_000) {
    this.#origin = now;
  }

  /** Number of timers that have not fired. */
  get timers(): number {
    return this.#timers.size;
  }

  now(): number {
    return this.#origin + this.#elapsed;
  }

  elapsed(): number {
    return this.#elapsed;
  }

  timer(delayMs: number, run: () => void): () => void {
    const timer = { at: this.#elapsed + Math.max(0, delayMs), run };
    this.#timers.add(timer);
    return () => void this.#timers.delete(timer);
  }

  sleep(delayMs: number, signal?: AbortSignal): Promise<void> {
    return sleepOn(this, delayMs, signal);
  }

  /** Sets the time, as a system's clock is set, which no timer notices. */
  jump(ms: number): void {
    this.#origin += ms;
  }

  /** Lets `ms` milliseconds pass, and runs the timers that are due meanwhile at their times, in order. */
  advance(ms: number): void {
    const end = this.#elapsed + ms;
    for (let next = this.#next(); next !== undefined && next.at <= end; next = this.#next()) {
      this.#timers.delete(next);
      this.#elapsed = Math.max(this.#elapsed, next.at);
      next.run();
    }
    this.#elapsed = end;
  }

  #next() {
    return [...this.#timers].sort((one, other) => one.at - other.at)[0];
  }
}
