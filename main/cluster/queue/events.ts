import type { Subscription } from '@nats-io/transport-node';
import type { TaskEvent } from '../../tasks/queue/queue.ts';
import type { NatsLink } from '../nats-link.ts';

/** Most events in one message between nodes. */
const MOST_TOGETHER = 500;

/** Tasks that are remembered as running elsewhere. */
const MOST_ELSEWHERE = 10_000;

/**
 * Tells the other nodes of what happens to tasks here, and is told by them. It is plain NATS, which nobody keeps: who is
 * not there, or cannot be reached, misses it.
 */
export class NatsEvents {
  readonly #link: NatsLink;
  readonly #subject: string;
  readonly #node: string;
  readonly #onEvent: (event: TaskEvent) => void;
  readonly #subscription: Subscription;
  /** The attempts that other nodes have begun, by task. One whose node died stays until the task is delivered again. */
  readonly #elsewhere = new Map<string, number>();
  #untold: TaskEvent[] = [];

  constructor(link: NatsLink, subject: string, node: string, onEvent: (event: TaskEvent) => void) {
    this.#link = link;
    this.#subject = subject;
    this.#node = node;
    this.#onEvent = onEvent;
    this.#subscription = link.connection.subscribe(subject, {
      callback: (error, message) => {
        if (error === null) this.#hear(message.string());
      },
    });
  }

  /** Something happened here. */
  tell(event: TaskEvent): void {
    this.#elsewhere.delete(event.id);
    this.#onEvent(event);
    this.#untold.push(event);
    if (this.#untold.length === 1) setImmediate(() => this.#send());
  }

  /** Which attempt at a task runs on another node, if one does. */
  attemptElsewhere(id: string): number | undefined {
    return this.#elsewhere.get(id);
  }

  /** A task came here: it runs nowhere else. */
  arrived(id: string): void {
    this.#elsewhere.delete(id);
  }

  close(): void {
    this.#send();
    if (!this.#link.connection.isClosed()) this.#subscription.unsubscribe();
  }

  #send(): void {
    while (this.#untold.length > 0) {
      const events = this.#untold.splice(0, MOST_TOGETHER);
      if (this.#link.up) this.#link.connection.publish(this.#subject, JSON.stringify({ node: this.#node, events }));
    }
  }

  #hear(text: string): void {
    const heard = parseEvents(text);
    if (heard === undefined || heard.node === this.#node) return;
    for (const event of heard.events) {
      this.#elsewhere.delete(event.id);
      if (event.event === 'started') this.#elsewhere.set(event.id, event.attempt);
      this.#onEvent(event);
    }
    for (const id of this.#elsewhere.keys()) {
      if (this.#elsewhere.size <= MOST_ELSEWHERE) break;
      this.#elsewhere.delete(id);
    }
  }
}

/** What another node tells; undefined for what no node of this kind sends, which must not end the reading of all others. */
function parseEvents(text: string): { node: string; events: TaskEvent[] } | undefined {
  try {
    const { node, events } = JSON.parse(text);
    const known = Array.isArray(events) && events.every((each) => typeof each.id === 'string' && each.event in KINDS);
    return known ? { node, events } : undefined;
  } catch {
    return undefined;
  }
}

const KINDS: Readonly<Record<TaskEvent['event'], true>> = {
  accepted: true,
  started: true,
  retrying: true,
  completed: true,
  failed: true,
};
