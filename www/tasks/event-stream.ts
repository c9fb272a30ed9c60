import type { OwnTaskState } from './own-task-state.ts';
import { authorization } from './tasks-api.ts';

/** Milliseconds to wait before reconnecting if the event stream is lost. */
const LOST_MS = 1_000;
/** Milliseconds to wait before reconnecting if the service refuses the event stream. */
const REFUSED_MS = 60_000;

/** Listeners of the event stream. */
export interface TaskEventListeners {
  /** Called without arguments when the state of any task changes. */
  onChange(): void;
  /** Called with the state of a task that reports progress or is cancelled. */
  onState(id: string, state: OwnTaskState): void;
}

/** Client of the event stream `GET /tasks/events`. Uses `fetch`, because `EventSource` cannot send a token. */
export class TaskEvents {
  readonly #listeners: TaskEventListeners;
  #connection: AbortController | undefined;
  #live = false;
  #notBefore = 0;

  constructor(listeners: TaskEventListeners) {
    this.#listeners = listeners;
  }

  /** Whether the stream is connected. */
  get live(): boolean {
    return this.#live;
  }

  /** Connects to the event stream. Does nothing if it is already connected, or during the delay after a failure. */
  open(): void {
    if (this.#connection !== undefined || performance.now() < this.#notBefore) return;
    const connection = new AbortController();
    this.#connection = connection;
    void this.#follow(connection.signal).then((pauseMs) => {
      if (this.#connection !== connection) return;
      this.close();
      this.#notBefore = performance.now() + pauseMs;
      // Reports a change, because events may be missed until the stream is connected again.
      this.#listeners.onChange();
    });
  }

  close(): void {
    this.#connection?.abort();
    this.#connection = undefined;
    this.#live = false;
    this.#notBefore = 0;
  }

  /** Reads the event stream until it ends. @returns milliseconds to wait before reconnecting */
  async #follow(signal: AbortSignal): Promise<number> {
    try {
      const response = await fetch('/tasks/events', { headers: authorization(), signal });
      if (!response.ok || response.body === null) return REFUSED_MS;
      this.#live = true;
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = '';
      for (let text = await reader.read(); !text.done; text = await reader.read()) {
        const blocks = (rest + text.value).split('\n\n');
        rest = blocks.pop() ?? '';
        for (const block of blocks) this.#receive(block);
      }
    } catch {
      // The event stream was lost, or closed by this page.
    }
    return LOST_MS;
  }

  /**
   * Handles a block of the event stream. The first block has no event but counts as a change, because the service does
   * not replay earlier events.
   */
  #receive(block: string): void {
    // A block that starts with a colon is a heartbeat.
    if (block.startsWith(':')) return;
    const event = /^event: (.*)$/m.exec(block)?.[1];
    if (event !== 'progress') this.#listeners.onChange();
    if (event !== 'progress' && event !== 'cancelled') return;
    const { id, ...state } = JSON.parse(/^data: (.*)$/m.exec(block)?.[1] ?? '{}');
    this.#listeners.onState(id, state);
  }
}
