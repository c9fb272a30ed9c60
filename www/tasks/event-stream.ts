import { batches, type EventBatch } from './event-batch.ts';
import { authorization } from './tasks-api.ts';

/** Milliseconds without data after which the stream counts as lost. The service sends a heartbeat every 15 seconds. */
const SILENCE_MS = 40_000;
/** Delay before the next attempt after the service has refused the stream. */
const REFUSED_MS = 30_000;

export interface StreamListeners {
  onBatch(batch: EventBatch): void;
  onData(): void;
  /** Called when the stream starts, and when it ends without a call of `close`. */
  onChange(): void;
}

/** Client of the event stream `GET /tasks/events`. Uses `fetch`, because `EventSource` cannot send a token. */
export class EventStream {
  readonly #listeners: StreamListeners;
  #connection: AbortController | undefined;
  #isOpen = false;
  #notBefore = 0;

  constructor(listeners: StreamListeners) {
    this.#listeners = listeners;
  }

  get isOpen(): boolean {
    return this.#isOpen;
  }

  /** Connects unless already connected. @param position id of the last known event, after which the stream continues */
  open(position: string | undefined): void {
    if (this.#connection !== undefined || performance.now() < this.#notBefore) return;
    const connection = new AbortController();
    this.#connection = connection;
    void this.#follow(connection, position)
      .catch(() => {
        // A lost connection needs no handling here, because `finally` calls `onChange`.
      })
      .finally(() => {
        if (this.#connection !== connection) return;
        this.#end();
        this.#listeners.onChange();
      });
  }

  /** Disconnects. After `close`, `open` may connect without the delay that follows a refused stream. */
  close(): void {
    this.#end();
    this.#notBefore = 0;
  }

  #end(): void {
    this.#connection?.abort();
    this.#connection = undefined;
    this.#isOpen = false;
  }

  async #follow(connection: AbortController, position: string | undefined): Promise<void> {
    const headers = { ...authorization(), ...(position !== undefined && { 'Last-Event-ID': position }) };
    const response = await fetch('/tasks/events', { headers, signal: connection.signal });
    if (!response.ok || response.body === null) {
      this.#notBefore = performance.now() + REFUSED_MS;
      return;
    }
    this.#isOpen = true;
    this.#listeners.onChange();
    const nextBatch = batches(position);
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let silence: ReturnType<typeof setTimeout> | undefined;
    try {
      for (;;) {
        silence = setTimeout(() => connection.abort(), SILENCE_MS);
        const { done, value } = await reader.read();
        clearTimeout(silence);
        if (done || connection.signal.aborted) return;
        this.#listeners.onData();
        const batch = nextBatch(value);
        if (batch !== undefined) this.#listeners.onBatch(batch);
      }
    } finally {
      clearTimeout(silence);
    }
  }
}
