import { randomUUID } from 'node:crypto';
import type { Subscription } from '@nats-io/transport-node';
import type { TaskEvent, TaskProgress } from '../../tasks/queue/queue.ts';
import type { NatsLink } from '../nats-link.ts';

/** Keeps a NATS message far below the server's limit of 1 MiB. */
const MAX_EVENTS_PER_MESSAGE = 500;

type Kind = TaskEvent['event'];

/** Kinds of task events that version 0.1.0 knows. Version 0.1.0 ignores a NATS message with another kind. */
const FIRST_KINDS: ReadonlySet<Kind> = new Set(['accepted', 'started', 'retrying', 'completed', 'failed']);

/** Kinds of task events that this version knows. Other kinds are ignored. */
const KINDS: ReadonlySet<Kind> = new Set([...FIRST_KINDS, 'cancelled', 'progress', 'purged']);

/** Maximum number of tasks remembered as running on other nodes. */
const MAX_ELSEWHERE = 10_000;

const MAX_CANCELLED = 10_000;

interface RunningElsewhere {
  attempt: number;
  /** Undefined if this node missed the event that reported the start. */
  startedAt?: number;
  progress?: TaskProgress;
}

/** Exchanges task events with other nodes over core NATS. A disconnected node misses events. */
export class NatsEvents {
  readonly #link: NatsLink;
  readonly #subject: string;
  /** Start of the NATS messages of this node. */
  readonly #head = `{"node":"${randomUUID()}","events":`;
  readonly #onEvent: (event: TaskEvent) => void;
  readonly #subscription: Subscription;
  /** Tasks running on other nodes, by task id. The tasks of a dead node remain until their redelivery. */
  readonly #elsewhere = new Map<string, RunningElsewhere>();
  readonly #cancelled = new Set<string>();
  #onElsewhere = (_id: string) => {};
  #unsent: TaskEvent[] = [];

  constructor(link: NatsLink, onEvent: (event: TaskEvent) => void) {
    this.#link = link;
    this.#subject = `${link.prefix}.events`;
    this.#onEvent = onEvent;
    this.#subscription = link.subscribe(this.#subject, (message) => this.#receive(message.string()));
  }

  /** Reports an event to this node's listener and to the other nodes. Ignores a repeated cancellation. */
  tell(event: TaskEvent): void {
    if (!this.#remember(event)) return;
    // Another node may already have started a task whose acceptance JetStream confirms only now.
    if (event.event !== 'accepted') this.#elsewhere.delete(event.id);
    this.#onEvent(event);
    this.#unsent.push(event);
    if (this.#unsent.length === 1) setImmediate(() => this.#send());
  }

  /** Sets the listener for task ids in events of other nodes, except `accepted` events. */
  onElsewhere(listener: (id: string) => void): void {
    this.#onElsewhere = listener;
  }

  elsewhere(): Iterable<string> {
    return this.#elsewhere.keys();
  }

  get elsewhereCount(): number {
    return this.#elsewhere.size;
  }

  runningElsewhere(id: string): RunningElsewhere | undefined {
    return this.#elsewhere.get(id);
  }

  /** Records that a task was delivered to this node and no longer runs on another node. */
  arrived(id: string): void {
    this.#elsewhere.delete(id);
  }

  close(): void {
    this.#send();
    this.#subscription.unsubscribe();
  }

  #send(): void {
    while (this.#unsent.length > 0) {
      const events = this.#unsent.splice(0, Math.min(this.#nextMessageLength(), MAX_EVENTS_PER_MESSAGE));
      if (this.#link.up) this.#link.connection.publish(this.#subject, `${this.#head}${JSON.stringify(events)}}`);
    }
  }

  /**
   * Returns how many of the first unsent events can share a NATS message. Event kinds that version 0.1.0 does not know
   * are sent separately, because version 0.1.0 ignores a NATS message that contains an unknown kind.
   */
  #nextMessageLength(): number {
    const isFirstKind = ({ event }: TaskEvent) => FIRST_KINDS.has(event);
    const [next] = this.#unsent;
    const end = this.#unsent.findIndex((event) => isFirstKind(event) !== isFirstKind(next as TaskEvent));
    return end === -1 ? this.#unsent.length : end;
  }

  /** Returns false for a repeated cancellation. A redriven task (event `accepted`) can be cancelled again. */
  #remember({ event, id }: TaskEvent): boolean {
    if (event === 'accepted') this.#cancelled.delete(id);
    if (event !== 'cancelled') return true;
    if (this.#cancelled.has(id)) return false;
    this.#cancelled.add(id);
    const [oldest] = this.#cancelled;
    if (this.#cancelled.size > MAX_CANCELLED) this.#cancelled.delete(oldest as string);
    return true;
  }

  #receive(text: string): void {
    // NATS delivers the events of this node, too.
    if (text.startsWith(this.#head)) return;
    for (const event of parseEvents(text)) {
      if (!this.#remember(event)) continue;
      // The accepting node may report a task later than the node that started it.
      if (event.event !== 'accepted') this.#trackRunning(event);
      this.#onEvent(event);
    }
    for (const id of this.#elsewhere.keys()) {
      if (this.#elsewhere.size <= MAX_ELSEWHERE) break;
      this.#elsewhere.delete(id);
    }
  }

  /** Notes whether another node runs a task, according to an event of that node. */
  #trackRunning(event: TaskEvent): void {
    const earlier = this.#elsewhere.get(event.id);
    this.#elsewhere.delete(event.id);
    if (event.event === 'started') this.#elsewhere.set(event.id, { attempt: event.attempt, startedAt: event.at });
    if (event.event === 'progress') {
      const { attempt } = event;
      this.#elsewhere.set(event.id, { ...earlier, attempt, progress: progressOf(event) });
    }
    this.#onElsewhere(event.id);
  }
}

function progressOf({ fraction, note }: Extract<TaskEvent, { event: 'progress' }>): TaskProgress {
  return note === undefined ? { fraction } : { fraction, note };
}

/** Adds the time to an event of version 0.1.0, which sends neither the action nor the time. */
function withTime(event: TaskEvent): TaskEvent {
  return typeof event.at === 'number' ? event : { ...event, at: Date.now() };
}

/** Returns no events if the message is invalid. */
function parseEvents(text: string): TaskEvent[] {
  try {
    const { events } = JSON.parse(text);
    const known = events.filter(({ id, event }: TaskEvent) => typeof id === 'string' && KINDS.has(event));
    return known.map(withTime);
  } catch {
    return [];
  }
}
