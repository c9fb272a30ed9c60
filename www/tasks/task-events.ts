import { authorization } from './tasks-api.ts';

/** Delay before a reconnection after a lost stream, and after a refused one. */
const LOST_MS = 1_000;
const REFUSED_MS = 60_000;

/** Comment that the service sends as a heartbeat. */
const HEARTBEAT = /^(:\s*)+$/;

/**
 * Reports that a task changed, without the change itself, while the event stream is connected. Uses `fetch`, because an `EventSource`
 * cannot send a token.
 */
export class TaskEvents {
  readonly #onEvent: () => void;
  #connection: AbortController | undefined;
  #live = false;
  #notBefore = 0;

  constructor(onEvent: () => void) {
    this.#onEvent = onEvent;
  }

  /** Whether the stream is connected. */
  get live(): boolean {
    return this.#live;
  }

  /** Connects, unless the stream is connected, or its retry delay is not over. */
  open(): void {
    if (this.#connection !== undefined || performance.now() < this.#notBefore) return;
    const connection = new AbortController();
    this.#connection = connection;
    void this.#follow(connection.signal).then((pauseMs) => {
      if (this.#connection !== connection) return;
      this.close();
      this.#notBefore = performance.now() + pauseMs;
      // From now on events may be missed.
      this.#onEvent();
    });
  }

  close(): void {
    this.#connection?.abort();
    this.#connection = undefined;
    this.#live = false;
    this.#notBefore = 0;
  }

  /** Reads the stream until it ends. @returns milliseconds until the next attempt */
  async #follow(signal: AbortSignal): Promise<number> {
    try {
      const response = await fetch('/tasks/events', { headers: authorization(), signal });
      if (!response.ok || response.body === null) return REFUSED_MS;
      this.#live = true;
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      // Earlier events are not sent. The first text arrives at once.
      for (let text = await reader.read(); !text.done; text = await reader.read()) {
        if (!HEARTBEAT.test(text.value)) this.#onEvent();
      }
    } catch {
      // The stream was lost, or closed by this page.
    }
    return LOST_MS;
  }
}
