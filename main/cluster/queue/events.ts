import { randomUUID } from 'node:crypto';
import type { Subscription } from '@nats-io/transport-node';
import type { TaskEvent, TaskProgress } from '../../tasks/queue/queue.ts';
import type { NatsLink } from '../nats-link.ts';

/** Maximum number of events per NATS message, so that a message stays far below the 1 MiB that a server accepts. */
const MAX_EVENTS_PER_MESSAGE = 500;

type Kind = TaskEvent['event'];

/** Kinds of task events that all versions know. Version 0.1.0 ignores a NATS message that contains any other kind. */
const FIRST_KINDS: ReadonlySet<Kind> = new Set(['accepted', 'started', 'retrying', 'completed', 'failed']);

/** Kinds of task events known to this version. Others are ignored. */
const KINDS: ReadonlySet<Kind> = new Set([...FIRST_KINDS, 'cancelled', 'progress']);

/** Maximum number of tasks remembered as running on other nodes. */
const MAX_ELSEWHERE = 10_000;

/** Maximum number of tasks remembered as cancelled. One more evicts the oldest. */
const MAX_CANCELLED = 10_000;

/** A task that another node is running. */
interface RunningElsewhere {
  attempt: number;
  progress?: TaskProgress;
}

/** Exchanges task events with the other nodes over core NATS. Delivery is at most once: a disconnected node misses events. */
export class NatsEvents {
  readonly #link: NatsLink;
  readonly #subject: string;
  /** Random id of this node, used to recognize and ignore its own messages. */
  readonly #node = randomUUID();
  readonly #onEvent: (event: TaskEvent) => void;
  readonly #subscription: Subscription;
  /** Tasks running on other nodes, by task id. If such a node dies, the entry stays until a redelivery. */
  readonly #elsewhere = new Map<string, RunningElsewhere>();
  /** Ids of tasks whose cancellation this node has reported. */
  readonly #cancelled = new Set<string>();
  #onElsewhere = (_id: string) => {};
  /** Events of this node that have not been sent yet. */
  #unsent: TaskEvent[] = [];

  constructor(link: NatsLink, onEvent: (event: TaskEvent) => void) {
    this.#link = link;
    this.#subject = `${link.prefix}.events`;
    this.#onEvent = onEvent;
    this.#subscription = link.subscribe(this.#subject, (message) => this.#receive(message.string()));
  }

  /** Reports an event of this node to its own listener and to the other nodes, unless it repeats a cancellation. */
  tell(event: TaskEvent): void {
    if (!this.#remember(event)) return;
    this.#elsewhere.delete(event.id);
    this.#onEvent(event);
    this.#unsent.push(event);
    if (this.#unsent.length === 1) setImmediate(() => this.#send());
  }

  /**
   * Sets the listener called with the task id of every event of another node except `accepted`. Such an event means that the task
   * no longer waits for a redelivery to this node.
   */
  onElsewhere(listener: (id: string) => void): void {
    this.#onElsewhere = listener;
  }

  /** Returns the task's attempt number and progress if another node is running it, otherwise undefined. */
  runningElsewhere(id: string): RunningElsewhere | undefined {
    return this.#elsewhere.get(id);
  }

  /** Registers that a task was delivered to this node, so it is no longer running on another node. */
  arrived(id: string): void {
    this.#elsewhere.delete(id);
  }

  close(): void {
    this.#send();
    this.#subscription.unsubscribe();
  }

  #send(): void {
    while (this.#unsent.length > 0) {
      const events = this.#unsent.splice(0, Math.min(this.#known(), MAX_EVENTS_PER_MESSAGE));
      if (this.#link.up) this.#link.connection.publish(this.#subject, JSON.stringify({ node: this.#node, events }));
    }
  }

  /** Returns how many of the unsent events come before the first that only one of the next and its own version knows. */
  #known(): number {
    const isFirstKind = ({ event }: TaskEvent) => FIRST_KINDS.has(event);
    const [next] = this.#unsent;
    const end = this.#unsent.findIndex((event) => isFirstKind(event) !== isFirstKind(next as TaskEvent));
    return end === -1 ? this.#unsent.length : end;
  }

  /**
   * Remembers a cancellation. An accepted task may be cancelled again, because a redrive accepts its message once more.
   *
   * @returns false if this node has reported the cancellation before
   */
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
    const received = parseEvents(text);
    if (received === undefined || received.node === this.#node) return;
    for (const event of received.events) {
      if (!this.#remember(event)) continue;
      this.#elsewhere.delete(event.id);
      if (event.event === 'started') this.#elsewhere.set(event.id, { attempt: event.attempt });
      if (event.event === 'progress')
        this.#elsewhere.set(event.id, { attempt: event.attempt, progress: progressOf(event) });
      if (event.event !== 'accepted') this.#onElsewhere(event.id);
      this.#onEvent(event);
    }
    for (const id of this.#elsewhere.keys()) {
      if (this.#elsewhere.size <= MAX_ELSEWHERE) break;
      this.#elsewhere.delete(id);
    }
  }
}

function progressOf({ fraction, note }: Extract<TaskEvent, { event: 'progress' }>): TaskProgress {
  return note === undefined ? { fraction } : { fraction, note };
}

/** Parses a message from another node. Returns undefined if its format is unknown, and never throws. */
function parseEvents(text: string): { node: string; events: TaskEvent[] } | undefined {
  try {
    const { node, events } = JSON.parse(text);
    return { node, events: events.filter((each: TaskEvent) => typeof each.id === 'string' && KINDS.has(each.event)) };
  } catch {
    return undefined;
  }
}
