import { ServiceError, UnreachableError } from '../client/errors.ts';
import { EventStream } from '../client/event-stream.ts';
import type { QueueStatus } from '../client/queue-api.ts';
import type { QueueEvent, TaskEvent } from '../client/task-state.ts';
import { Presence } from './presence.ts';
import { QueueRequests } from './queue-requests.ts';
import { http, isSignedOut } from './service.ts';
import { TabGroup } from './tab-group.ts';

const TICK_MS = 1_000;
/** Milliseconds without a response or event after which the service counts as offline. */
const OFFLINE_MS = 3_500;
/** Milliseconds without a message of the leader tab after which another tab becomes the leader. */
const LEADER_SILENCE_MS = 3_000;
/** Timer ticks between the requests by which a tab that is not the leader checks its token. */
const CHECK_TICKS = 10;

export interface LinkState {
  kind: 'connecting' | 'live' | 'offline' | 'failing' | 'signed-out';
  /** Error message of the service if `kind` is `failing`. */
  error?: string | undefined;
  /** Milliseconds since the epoch. */
  lastEventAt?: number;
  /** Whether the event stream is connected. If not, changed counts in `GET /queue` responses show missed events. */
  isStreaming: boolean;
}

export interface LinkListeners {
  onState(state: LinkState, earlier: LinkState): void;
  onStatus(status: QueueStatus): void;
  onEvents(events: readonly TaskEvent[]): void;
  onGap(): void;
}

interface EventBatch {
  /** Id of the last event before the batch, or undefined if the stream has just started. */
  from: string | undefined;
  to: string | undefined;
  events: (TaskEvent | QueueEvent)[];
}

/** Messages between browser tabs. Only the leader tab sends `batch` and, every second, `news`. */
type Message =
  | { kind: 'hello' }
  | { kind: 'batch'; batch: EventBatch }
  | { kind: 'news'; state: LinkState; position: string | undefined; status: QueueStatus | undefined };

/** Connection shared by all visible tabs of a user. Only the leader tab reads events and requests `GET /queue`. */
export class ServiceLink {
  readonly #listeners: LinkListeners;
  readonly #presence: Presence;
  readonly #group: TabGroup<Message>;
  readonly #stream: EventStream;
  readonly #requests: QueueRequests;
  #state: LinkState = { kind: 'connecting', isStreaming: false };
  #status: QueueStatus | undefined;
  #position: string | undefined;
  /** Id of the user, or an empty string if no token is required. Undefined while signed out. */
  #user: string | undefined;
  #timer: ReturnType<typeof setInterval> | undefined;
  #ticks = 0;
  #contactAt = 0;

  constructor(listeners: LinkListeners) {
    this.#listeners = listeners;
    this.#group = new TabGroup({
      onLead: (leads) => this.#onLead(leads),
      onMessage: (message) => this.#onMessage(message),
    });
    this.#stream = new EventStream(http, {
      onStatus: ({ state }) => this.#show({ isStreaming: state === 'live' || state === 'stale' }),
      onEvents: (events, from, to) => this.#onBatch({ events, from, to }),
    });
    this.#requests = new QueueRequests({
      onAnswer: (status) => this.#onAnswer(status),
      onFailure: (error) => this.#onFailure(error),
    });
    this.#presence = new Presence({ onPresent: () => this.#join(), onAbsent: () => this.#leave() });
  }

  get state(): LinkState {
    return this.#state;
  }

  /** Connects while the page is visible. @param user id of the user, or an empty string if no user is signed in */
  start(user: string): void {
    this.#leave();
    this.#user = user;
    this.#position = undefined;
    // Leaves the state `signed-out`, because a repeated `signed-out` would not call `onState`.
    this.#show({ kind: 'connecting', isStreaming: false });
    if (this.#presence.isPresent) this.#join();
  }

  /** Requests the state of the queue, even if the service has asked to wait with `Retry-After`. */
  now(): void {
    if (this.#timer !== undefined) this.#requests.sendNow();
  }

  /** Disconnects from the service until `start` is called. */
  signOut(): void {
    this.#user = undefined;
    this.#leave();
    this.#show({ kind: 'signed-out', isStreaming: false });
  }

  #join(): void {
    if (this.#user === undefined || this.#timer !== undefined) return;
    this.#noteContact();
    this.#timer = setInterval(() => this.#tick(), TICK_MS);
    this.#group.join(`task-board ${this.#user}`);
    this.#group.send({ kind: 'hello' });
    this.#requests.send();
  }

  #leave(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
    this.#group.leave();
    this.#disconnect();
  }

  #disconnect(): void {
    this.#stream.stop('not the leader');
    this.#requests.discard();
  }

  #tick(): void {
    this.#ticks += 1;
    if (this.#group.isLeader || this.#ticks % CHECK_TICKS === 0) this.#requests.send();
    const silenceMs = performance.now() - this.#contactAt;
    if (silenceMs > LEADER_SILENCE_MS) this.#group.takeOver();
    if (silenceMs > OFFLINE_MS) this.#show({ kind: 'offline' });
    this.#sendNews();
  }

  #onLead(leads: boolean): void {
    if (!leads) {
      this.#disconnect();
      return;
    }
    if (this.#state.kind === 'live') this.#stream.start(this.#position);
    this.#requests.send();
  }

  #onMessage(message: Message): void {
    if (message.kind === 'hello') {
      // A leader leaves the group if hidden, so that the visible tab that has sent `hello` becomes the leader.
      if (this.#group.isLeader) this.#presence.yield();
      this.#sendNews();
      return;
    }
    // A leader ignores messages of other tabs, because a former leader may send a last message.
    if (this.#group.isLeader) return;
    this.#noteContact();
    if (message.kind === 'batch') this.#onBatch(message.batch);
    else this.#onNews(message);
  }

  #onNews({ state, position, status }: Extract<Message, { kind: 'news' }>): void {
    if (position !== undefined && position !== this.#position) {
      if (this.#position !== undefined) this.#listeners.onGap();
      this.#position = position;
    }
    this.#show(state);
    if (status !== undefined) this.#receive(status);
  }

  #onBatch(batch: EventBatch): void {
    this.#noteContact();
    const isContinued = this.#position === undefined || batch.from === this.#position;
    this.#position = batch.to;
    const events = batch.events.filter((each): each is TaskEvent => 'id' in each);
    const isPauseChange = batch.events.some(({ event }) => event === 'paused' || event === 'resumed');
    if (!isContinued || batch.events.some(({ event }) => event === 'gap')) this.#listeners.onGap();
    if (events.length > 0) this.#listeners.onEvents(events);
    if (events.length > 0 || isPauseChange) this.#show({ lastEventAt: Date.now() });
    if (!this.#group.isLeader) return;
    this.#group.send({ kind: 'batch', batch });
    if (isPauseChange) this.#requests.send();
  }

  #onAnswer(status: QueueStatus): void {
    this.#noteContact();
    const isBack = this.#state.kind !== 'live';
    this.#show({ kind: 'live' });
    this.#receive(status);
    if (!this.#group.isLeader) return;
    if (isBack) {
      // A stream that waits for its next attempt starts at once.
      this.#stream.stop('reconnecting');
      this.#stream.start(this.#position);
    }
    this.#sendNews();
  }

  #onFailure(error: unknown): void {
    if (isSignedOut(error)) {
      this.signOut();
    } else if (!this.#group.isLeader) {
      // This tab shows the state that the leader sends, and ignores its own failed requests.
    } else if (error instanceof ServiceError) {
      this.#noteContact();
      this.#show({ kind: 'failing', error: error.message });
    } else if (error instanceof UnreachableError) {
      this.#show({ kind: 'offline' });
    }
  }

  #receive(status: QueueStatus): void {
    // Without the event stream, only changed counts in `GET /queue` responses show that events were missed.
    const isChanged = this.#status !== undefined && countsOf(this.#status) !== countsOf(status);
    this.#status = status;
    this.#listeners.onStatus(status);
    if (isChanged && !this.#state.isStreaming) this.#listeners.onGap();
  }

  #noteContact(): void {
    this.#contactAt = performance.now();
  }

  #show(change: Partial<LinkState>): void {
    const state = { ...this.#state, ...change };
    if (state.kind !== 'failing') state.error = undefined;
    const earlier = this.#state;
    this.#state = state;
    if (JSON.stringify(state) !== JSON.stringify(earlier)) this.#listeners.onState(state, earlier);
  }

  #sendNews(): void {
    if (!this.#group.isLeader) return;
    this.#group.send({ kind: 'news', state: this.#state, position: this.#position, status: this.#status });
  }
}

function countsOf({ accepted, completed, dead, waiting, limited, scheduled, delayed, in_flight }: QueueStatus): string {
  return [accepted, completed, dead, waiting, limited, scheduled, delayed, in_flight].join();
}
