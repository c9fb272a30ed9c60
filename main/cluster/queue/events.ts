import { randomUUID } from 'node:crypto';
import type { Subscription } from '@nats-io/transport-node';
import type { TaskEvent } from '../../tasks/queue/queue.ts';
import type { NatsLink } from '../nats-link.ts';

/** Maximum number of events in one NATS message, so that its size stays far below the 1 MiB that a server accepts. */
const MAX_EVENTS_PER_MESSAGE = 500;

/** Kinds of task events that this version knows. A message with any other kind is ignored. */
const KINDS: ReadonlySet<TaskEvent['event']> = new Set(['accepted', 'started', 'retrying', 'completed', 'failed']);

/** Maximum number of tasks that are remembered as running on other nodes. */
const MAX_ELSEWHERE = 10_000;

/** Exchanges task events with the other nodes over core NATS. Delivery is at most once: a disconnected node misses events. */
export class NatsEvents {
  readonly #link: NatsLink;
  readonly #subject: string;
  /** Random identifier of this node, by which it ignores its own messages. */
  readonly #node = randomUUID();
  readonly #onEvent: (event: TaskEvent) => void;
  readonly #subscription: Subscription;
  /** Number of the attempt in progress on another node, by task id. If that node dies, the entry stays until a redelivery. */
  readonly #elsewhere = new Map<string, number>();
  /** Events of this node to send in the next message. */
  #unsent: TaskEvent[] = [];

  constructor(link: NatsLink, subject: string, onEvent: (event: TaskEvent) => void) {
    this.#link = link;
    this.#subject = subject;
    this.#onEvent = onEvent;
    this.#subscription = link.connection.subscribe(subject, {
      callback: (error, message) => {
        if (error === null) this.#receive(message.string());
      },
    });
  }

  /** Reports an event of this node to its own listener and to the other nodes. */
  tell(event: TaskEvent): void {
    this.#elsewhere.delete(event.id);
    this.#onEvent(event);
    this.#unsent.push(event);
    if (this.#unsent.length === 1) setImmediate(() => this.#send());
  }

  /** Returns the number of the task's attempt in progress on another node, or undefined if there is none. */
  attemptElsewhere(id: string): number | undefined {
    return this.#elsewhere.get(id);
  }

  /** Registers that a task was delivered to this node, so it is no longer in progress on another node. */
  arrived(id: string): void {
    this.#elsewhere.delete(id);
  }

  close(): void {
    this.#send();
    if (!this.#link.connection.isClosed()) this.#subscription.unsubscribe();
  }

  #send(): void {
    while (this.#unsent.length > 0) {
      const events = this.#unsent.splice(0, MAX_EVENTS_PER_MESSAGE);
      if (this.#link.up) this.#link.connection.publish(this.#subject, JSON.stringify({ node: this.#node, events }));
    }
  }

  #receive(text: string): void {
    const received = parseEvents(text);
    if (received === undefined || received.node === this.#node) return;
    for (const event of received.events) {
      this.#elsewhere.delete(event.id);
      if (event.event === 'started') this.#elsewhere.set(event.id, event.attempt);
      this.#onEvent(event);
    }
    for (const id of this.#elsewhere.keys()) {
      if (this.#elsewhere.size <= MAX_ELSEWHERE) break;
      this.#elsewhere.delete(id);
    }
  }
}

/** Parses a message of another node. Returns undefined, and does not throw, for a message in an unknown format. */
function parseEvents(text: string): { node: string; events: TaskEvent[] } | undefined {
  try {
    const { node, events } = JSON.parse(text);
    const known = Array.isArray(events) && events.every((each) => typeof each.id === 'string' && KINDS.has(each.event));
    return known ? { node, events } : undefined;
  } catch {
    return undefined;
  }
}
