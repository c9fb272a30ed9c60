import { type ReadonlySignal, signal } from '@preact/signals';
import { ServiceError, UnreachableError } from '../client/errors.ts';
import { EventStream } from '../client/event-stream.ts';
import type { QueueStatus } from '../client/queue-api.ts';
import type { QueueEvent, TaskEvent } from '../client/task-state.ts';
import { client, isSignedOut } from './service.ts';
import { TabGroup } from './tab-group.ts';

const TICK_MS = 1_000;
/** With one request per second, a timeout of three seconds bounds the number of open requests to three. */
const TIMEOUT_MS = 3_000;
const MAX_RETRY_AFTER_MS = 60_000;
/** Milliseconds without a response or event after which the service counts as offline. */
const OFFLINE_MS = 3_500;
/** Milliseconds without a message of the leader tab after which another tab becomes the leader. */
const LEADER_SILENCE_MS = 3_000;
/** Timer ticks between the requests by which a tab that is not the leader checks its token. */
const CHECK_TICKS = 10;

export interface LinkState {
  kind: 'connecting' | 'live' | 'offline' | 'failing' | 'signed-out';
  error?: string | undefined;
  /** Milliseconds since the epoch. */
  lastEventAt?: number;
  /** Whether the event stream is connected. If not, changed counts in `GET /queue` responses show missed events. */
  isStreaming: boolean;
}

interface LinkListeners {
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
  readonly #group: TabGroup<Message>;
  readonly #stream: EventStream;
  readonly #state = signal<LinkState>({ kind: 'connecting', isStreaming: false });
  readonly state: ReadonlySignal<LinkState> = this.#state;
  #status: QueueStatus | undefined;
  #position: string | undefined;
  #ticks = 0;
  #contactAt = 0;
  /** Numbers of the last request that was sent, and of the last that was answered. */
  #sent = 0;
  #answered = 0;
  /** Time before which the service has asked to send no request. */
  #notBefore = 0;

  constructor(listeners: LinkListeners) {
    this.#listeners = listeners;
    this.#group = new TabGroup({
      onJoin: () => this.#onJoin(),
      onLead: (leads) => this.#onLead(leads),
      onMessage: (message) => this.#onMessage(message),
    });
    this.#stream = new EventStream(client.http, {
      onStatus: ({ state }) => this.#show({ isStreaming: state === 'live' || state === 'stale' }),
      onEvents: (events, from, to) => this.#onBatch({ events, from, to }),
    });
    setInterval(() => this.#tick(), TICK_MS);
  }

  /** Connects while the page is visible. @param user id of the user, or an empty string if no user is signed in */
  start(user: string): void {
    this.#position = undefined;
    // Leaves the state `signed-out`, because a repeated `signed-out` would not change the state.
    this.#show({ kind: 'connecting', isStreaming: false });
    this.#group.enter(`task-board ${user}`);
  }

  /** Requests the state of the queue, even if the service has asked to wait with `Retry-After`. */
  now(): void {
    if (this.#group.isMember) void this.#request();
  }

  /** Disconnects from the service until `start` is called. */
  signOut(): void {
    this.#group.enter('');
    this.#show({ kind: 'signed-out', isStreaming: false });
  }

  #onJoin(): void {
    this.#contactAt = performance.now();
    this.#group.send({ kind: 'hello' });
    this.#requestInTime();
  }

  #tick(): void {
    if (!this.#group.isMember) return;
    this.#ticks += 1;
    if (this.#group.isLeader || this.#ticks % CHECK_TICKS === 0) this.#requestInTime();
    const silenceMs = performance.now() - this.#contactAt;
    if (silenceMs > LEADER_SILENCE_MS) this.#group.takeOver();
    if (silenceMs > OFFLINE_MS) this.#show({ kind: 'offline' });
    this.#sendNews();
  }

  #onLead(leads: boolean): void {
    if (!leads) {
      this.#stream.stop('not the leader');
      // Answers that are still open are ignored.
      this.#answered = this.#sent;
      return;
    }
    if (this.#state.peek().kind === 'live') this.#stream.start(this.#position);
    this.#requestInTime();
  }

  #onMessage(message: Message): void {
    if (message.kind === 'hello') {
      // A leader leaves the group if hidden, so that the visible tab that has sent `hello` becomes the leader.
      if (this.#group.isLeader) this.#group.yield();
      this.#sendNews();
      return;
    }
    // A leader ignores messages of other tabs, because a former leader may send a last message.
    if (this.#group.isLeader) return;
    this.#contactAt = performance.now();
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
    this.#contactAt = performance.now();
    const isContinued = this.#position === undefined || batch.from === this.#position;
    this.#position = batch.to;
    const events = batch.events.filter((each): each is TaskEvent => 'id' in each);
    const isPauseChange = batch.events.some(({ event }) => event === 'paused' || event === 'resumed');
    if (!isContinued || batch.events.some(({ event }) => event === 'gap')) this.#listeners.onGap();
    if (events.length > 0) this.#listeners.onEvents(events);
    if (events.length > 0 || isPauseChange) this.#show({ lastEventAt: Date.now() });
    if (!this.#group.isLeader) return;
    this.#group.send({ kind: 'batch', batch });
    if (isPauseChange) this.#requestInTime();
  }

  #requestInTime(): void {
    if (performance.now() >= this.#notBefore) void this.#request();
  }

  /** Requests `GET /queue` without waiting for earlier answers, and ignores answers out of order. */
  async #request(): Promise<void> {
    const number = ++this.#sent;
    const [answer] = await Promise.allSettled([client.queue.status({ signal: AbortSignal.timeout(TIMEOUT_MS) })]);
    if (number <= this.#answered) return;
    this.#answered = number;
    if (answer.status === 'fulfilled') this.#onAnswer(answer.value);
    else this.#onFailure(answer.reason);
  }

  #onAnswer(status: QueueStatus): void {
    this.#contactAt = performance.now();
    this.#notBefore = 0;
    const isBack = this.#state.peek().kind !== 'live';
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
    const { retryAfterMs = 0 } = error instanceof ServiceError ? error : {};
    this.#notBefore = performance.now() + Math.min(retryAfterMs, MAX_RETRY_AFTER_MS);
    if (isSignedOut(error)) {
      this.signOut();
    } else if (!this.#group.isLeader) {
      // This tab shows the state that the leader sends, and ignores its own failed requests.
    } else if (error instanceof ServiceError) {
      this.#contactAt = performance.now();
      this.#show({ kind: 'failing', error: error.message });
    } else if (error instanceof UnreachableError) {
      this.#show({ kind: 'offline' });
    }
  }

  #receive(status: QueueStatus): void {
    this.#status = status;
    this.#listeners.onStatus(status);
  }

  #show(change: Partial<LinkState>): void {
    const state = { ...this.#state.peek(), ...change };
    if (state.kind !== 'failing') state.error = undefined;
    if (JSON.stringify(state) !== JSON.stringify(this.#state.peek())) this.#state.value = state;
  }

  #sendNews(): void {
    if (!this.#group.isLeader) return;
    this.#group.send({ kind: 'news', state: this.#state.peek(), position: this.#position, status: this.#status });
  }
}
