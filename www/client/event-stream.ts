import { UnreachableError } from './errors.ts';
import type { HttpClient } from './http-client.ts';
import { Reconnection, type Status } from './reconnection.ts';
import type { QueueEvent, TaskEvent } from './task-state.ts';
import { linkedTo } from './waiting.ts';

/**
 * Time without data after which the stream is stale, and after which a stale one counts as lost. The service sends a
 * heartbeat every 15 seconds.
 */
const SILENCE_MS = 20_000;

interface Listener {
  onStatus(status: Status): void;
  /**
   * Called with the next events, and the ids of the last event before and in them. A stream that starts without a
   * position reports `gap`. A heartbeat may change the position without an event.
   */
  onEvents(events: (TaskEvent | QueueEvent)[], from: string | undefined, to: string | undefined): void;
}

/** Reader of `GET /tasks/events`, which continues after the last known event. `EventSource` could not send a token. */
export class EventStream {
  readonly #http: HttpClient;
  readonly #listener: Listener;
  #position: string | undefined;
  readonly #reconnection: Reconnection;

  constructor(http: HttpClient, listener: Listener) {
    this.#http = http;
    this.#listener = listener;
    this.#reconnection = new Reconnection({ connect: (signal) => this.#read(signal), onStatus: listener.onStatus });
  }

  get status(): Status {
    return this.#reconnection.status;
  }

  /** Connects, unless connected. @param position id of the last known event, after which the stream continues */
  start(position = this.#position): void {
    this.#position = position;
    this.#reconnection.start();
  }

  stop(reason: string): void {
    this.#reconnection.stop(reason);
  }

  async #read(stopped: AbortSignal): Promise<Error> {
    const connection = linkedTo(stopped);
    const { signal } = connection;
    let silence: ReturnType<typeof setTimeout> | undefined;
    const expectData = () => {
      clearTimeout(silence);
      silence = setTimeout(() => {
        this.#reconnection.enter({ state: 'stale' });
        silence = setTimeout(() => connection.abort(new UnreachableError('the event stream is silent')), SILENCE_MS);
      }, SILENCE_MS);
    };
    expectData();
    try {
      const headers: Record<string, string> = this.#position === undefined ? {} : { 'Last-Event-ID': this.#position };
      const { body } = await this.#http.respond('tasks/events', { headers }, signal);
      const decoder = new EventDecoder(this.#position);
      const text = new TextDecoder();
      const reader = body?.getReader();
      for (;;) {
        const part = await reader?.read();
        if (part?.value === undefined) return new UnreachableError('the event stream has ended');
        expectData();
        this.#reconnection.enter({ state: 'live' });
        const from = this.#position;
        const events = decoder.decode(text.decode(part.value, { stream: true }));
        this.#position = decoder.position;
        if (events.length > 0 || this.#position !== from) this.#listener.onEvents(events, from, this.#position);
      }
    } catch (error) {
      signal.throwIfAborted();
      // `fetch` throws a TypeError, and an event that is not JSON a SyntaxError.
      const isBroken = error instanceof TypeError || error instanceof SyntaxError;
      throw isBroken ? new UnreachableError('the event stream is broken', { cause: error }) : error;
    } finally {
      clearTimeout(silence);
      connection.abort();
    }
  }
}

/** Parser of the text of `GET /tasks/events`, which may be split at any position. */
export class EventDecoder {
  #rest = '';
  #position: string | undefined;
  #hasStarted = false;

  /** @param position id of the last known event, if any */
  constructor(position: string | undefined) {
    this.#position = position;
  }

  /** Id of the last event, after which another stream can continue. */
  get position(): string | undefined {
    return this.#position;
  }

  /** Returns the events that the next part of the text completes. */
  decode(text: string): (TaskEvent | QueueEvent)[] {
    const blocks = (this.#rest + text).split('\n\n');
    this.#rest = blocks.pop() ?? '';
    return blocks.flatMap((block) => this.#read(block));
  }

  #read(block: string): (TaskEvent | QueueEvent)[] {
    const id = field(block, 'id');
    if (id === undefined) return [];
    const event = field(block, 'event');
    // The stream starts with an id without an event. If the id is not that of the last known event, events were missed.
    // Later ids without an event are those of heartbeats, which skip the events of tasks that the token may not read.
    const isGap = event === 'gap' || (event === undefined && !this.#hasStarted && id !== this.#position);
    this.#hasStarted = true;
    this.#position = id;
    if (isGap) return [{ event: 'gap' }];
    return event === undefined ? [] : [{ event, ...JSON.parse(field(block, 'data') ?? '{}') }];
  }
}

function field(block: string, name: string): string | undefined {
  const line = block.split('\n').find((each) => each.startsWith(`${name}: `));
  return line?.slice(name.length + 2);
}
