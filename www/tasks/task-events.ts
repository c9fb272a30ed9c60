import { authorization } from './tasks-api.ts';

/** Milliseconds before a reconnection after the event stream was lost. */
const LOST_MS = 1_000;
/** Milliseconds before a reconnection after the service refused the event stream. */
const REFUSED_MS = 60_000;

/** Text without events: only comments, which the service sends as heartbeats. */
const HEARTBEAT = /^(:\s*)+$/;

/**
 * Calls `onEvent` for changes of tasks, without their details, while the event stream is connected. Uses `fetch`, because an
 * `EventSource` cannot send a token.
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

  /** Connects to the event stream, unless it is connected or the delay after its last failure is not over. */
  open(): void {
    if (this.#connection !== undefined || performance.now() < this.#notBefore) return;
    const connection = new AbortController();
    this.#connection = connection;
    void this.#follow(connection.signal).then((pauseMs) => {
      if (this.#connection !== connection) return;
      this.close();
      this.#notBefore = performance.now() + pauseMs;
      // Reports a change, because events may be missed from now on.
      this.#onEvent();
    });
  }

  close(): void {
    this.#connection?.abort();
    this.#connection = undefined;
    this.#live = false;
    this.#notBefore = 0;
  }

  /** Reads the event stream until it ends. @returns milliseconds until the next attempt to connect */
  async #follow(signal: AbortSignal): Promise<number> {
    try {
      const response = await fetch('/tasks/events', { headers: authorization(), signal });
      if (!response.ok || response.body === null) return REFUSED_MS;
      this.#live = true;
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      // The service does not send earlier events, but a first text at once, which also causes a report.
      for (let text = await reader.read(); !text.done; text = await reader.read()) {
        if (!HEARTBEAT.test(text.value)) this.#onEvent();
      }
    } catch {
      // The event stream was lost, or closed by this page.
    }
    return LOST_MS;
  }
}
