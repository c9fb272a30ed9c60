/** Every event of `GET /tasks/events`; what they are about is looked up. */
const EVENTS = ['accepted', 'started', 'retrying', 'completed', 'failed', 'gap'];

/** How long a service is left alone that refuses to tell. */
const REFUSED_MS = 60_000;

/** Hears from the service when something happens to a task, as long as it can. The browser connects again by itself. */
export class TaskEvents {
  readonly #onEvent: () => void;
  #source: EventSource | undefined;
  #triedAt = Number.NEGATIVE_INFINITY;

  constructor(onEvent: () => void) {
    this.#onEvent = onEvent;
  }

  /** Whether it is connected. */
  get live(): boolean {
    return this.#source?.readyState === EventSource.OPEN;
  }

  /** Connects, unless it does or tries to already. */
  open(): void {
    if (this.#source !== undefined && this.#source.readyState !== EventSource.CLOSED) return;
    if (performance.now() - this.#triedAt < REFUSED_MS) return;
    this.#triedAt = performance.now();
    this.#source = new EventSource('/tasks/events');
    for (const event of EVENTS) this.#source.addEventListener(event, this.#onEvent);
    // What happened before is not told, nor what will happen if this has ended.
    for (const change of ['open', 'error']) this.#source.addEventListener(change, this.#onEvent);
  }

  close(): void {
    this.#source?.close();
    this.#source = undefined;
    this.#triedAt = Number.NEGATIVE_INFINITY;
  }
}
