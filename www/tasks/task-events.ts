import { authorization } from './tasks-api.ts';

/** Pause after a lost stream, and after a refused one. */
const LOST_MS = 1_000;
const REFUSED_MS = 60_000;

/** A comment, which the service sends to keep the connection alive. */
const HEARTBEAT = /^(:\s*)+$/;

/**
 * Reports that something happens to a task, as long as the service tells; what happened is looked up. Not an `EventSource`,
 * which cannot send a token.
 */
export class TaskEvents {
  readonly #onEvent: () => void;
  #connection: AbortController | undefined;
  #live = false;
  #notBefore = 0;

  constructor(onEvent: () => void) {
    this.#onEvent = onEvent;
  }

  /** Whether it is connected. */
  get live(): boolean {
    return this.#live;
  }

  /** Connects, unless it is connected, or was lost or refused a moment ago. */
  open(): void {
    if (this.#connection !== undefined || performance.now() < this.#notBefore) return;
    const connection = new AbortController();
    this.#connection = connection;
    void this.#follow(connection.signal).then((pauseMs) => {
      if (this.#connection !== connection) return;
      this.close();
      this.#notBefore = performance.now() + pauseMs;
      // Events may be missed from now on.
      this.#onEvent();
    });
  }

  close(): void {
    this.#connection?.abort();
    this.#connection = undefined;
    this.#live = false;
    this.#notBefore = 0;
  }

  /** Reads the events to their end. @returns milliseconds until the next attempt */
  async #follow(signal: AbortSignal): Promise<number> {
    try {
      const response = await fetch('/tasks/events', { headers: authorization(), signal });
      if (!response.ok || response.body === null) return REFUSED_MS;
      this.#live = true;
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      // Events before the connection are not sent. The first text follows it at once.
      for (let text = await reader.read(); !text.done; text = await reader.read()) {
        if (!HEARTBEAT.test(text.value)) this.#onEvent();
      }
    } catch {
      // Lost, or closed here.
    }
    return LOST_MS;
  }
}
