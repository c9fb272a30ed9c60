import { backoff, linkedTo, sleep } from './waiting.ts';

/**
 * State of a connection. `stale`: connected, but nothing arrives. `offline`: waiting for the next attempt. `stopped`:
 * closed, not needed, or refused in a way that another attempt would be refused as well.
 */
export type Status =
  | { readonly state: 'connecting' | 'live' | 'stale' }
  /** `retryAt` is in milliseconds since the epoch. */
  | { readonly state: 'offline'; readonly reason: string; readonly retryAt: number }
  | { readonly state: 'stopped'; readonly reason: string };

/** Connection duration after which the delays start again from the shortest. */
const STABLE_AFTER_MS = 10_000;

interface Options {
  /** Connects, and returns or throws why the connection ended. Errors say with `isTransient` that another may last. */
  connect(signal: AbortSignal): Promise<Error>;
  onStatus(status: Status): void;
  /** Called with the error after which no other attempt is made. */
  onStop?(error: Error): void;
}

/** Keeps a connection: connects again after growing random delays, until it is stopped or another attempt is useless. */
export class Reconnection {
  readonly #options: Options;
  #running: AbortController | undefined;
  #waiting: AbortController | undefined;
  #status: Status = { state: 'stopped', reason: 'not started' };

  constructor(options: Options) {
    this.#options = options;
  }

  get status(): Status {
    return this.#status;
  }

  /** Connects, unless a connection is kept already. */
  start(): void {
    if (this.#running !== undefined) return;
    this.#running = new AbortController();
    void this.#run(this.#running.signal);
  }

  /** Disconnects. */
  stop(reason: string): void {
    if (this.#running === undefined) return;
    this.#running.abort();
    this.#running = undefined;
    this.enter({ state: 'stopped', reason });
  }

  /** Connects without waiting any longer, for example because the network is back. */
  wake(): void {
    this.#waiting?.abort();
  }

  /** Reports a state of the connection, if it is another one. */
  enter(status: Status): void {
    if (status.state === this.#status.state && status.state !== 'offline') return;
    this.#status = status;
    this.#options.onStatus(status);
  }

  async #run(signal: AbortSignal): Promise<void> {
    for (let failures = 0; ; failures++) {
      this.enter({ state: 'connecting' });
      const startedAt = performance.now();
      const error: Error & { isTransient?: boolean; retryAfterMs?: number } = await this.#options
        .connect(signal)
        .catch((thrown) => thrown);
      if (signal.aborted) return;
      if (error.isTransient !== true) {
        this.stop(error.message);
        this.#options.onStop?.(error);
        return;
      }
      if (performance.now() - startedAt >= STABLE_AFTER_MS) failures = 0;
      const delayMs = Math.max(error.retryAfterMs ?? 0, backoff(failures));
      this.enter({ state: 'offline', reason: error.message, retryAt: Date.now() + delayMs });
      await this.#wait(delayMs, signal);
      if (signal.aborted) return;
    }
  }

  /** Waits for the next attempt. In a browser, the event `online` ends the wait. */
  async #wait(delayMs: number, signal: AbortSignal): Promise<void> {
    const waiting = linkedTo(signal);
    this.#waiting = waiting;
    (globalThis as Partial<EventTarget>).addEventListener?.('online', () => waiting.abort(), {
      signal: waiting.signal,
    });
    await sleep(delayMs, waiting.signal).catch(() => {});
    waiting.abort();
  }
}
