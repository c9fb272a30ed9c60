import { EventEmitter } from 'node:events';
import { notify, type PostgresDatabase } from '../../db/postgres/database.ts';
import type { NodeMessage, QueueBus } from '../tasks/queue.ts';
import type { TickId } from '../ticker/numbered-stream.ts';
import type { Tick } from '../ticker/ticker.ts';
import { Link, type LinkOptions } from './link.ts';

export type BusMessage = NodeMessage | { topic: 'revoked'; id: string } | ({ topic: 'tick' } & SentTick);

export type SentTick = Tick & TickId;

/** Messages that the bus handles itself. */
type ControlMessage =
  /** The sender wants task events. Repeated while it does. */
  | { topic: 'follow' }
  /** Messages of the sender may have been lost, or much has changed at once. The receivers read the tables again. */
  | { topic: 'missed' };

interface BusEvents {
  message: [BusMessage];
  /** Messages may have been missed, or much has changed at once. The listeners read the tables again. */
  missed: [];
}

export interface BusOptions extends LinkOptions {
  database: Pick<PostgresDatabase, 'query'>;
}

/** PostgreSQL refuses payloads of 8,000 bytes or more. */
const MAX_PAYLOAD_BYTES = 7900;
const MAX_OUTBOX_BYTES = 1024 * 1024;
/** Minimum time between two notifying transactions, each of which holds up the commits of the others. */
const SEND_INTERVAL_MS = 10;
const RETRY_MS = 250;
const FOLLOW_INTERVAL_MS = 2000;
/** Time after the last announcement of a follower for which task events are sent. */
const FOLLOW_LIFETIME_MS = 3 * FOLLOW_INTERVAL_MS;

/**
 * Messages between nodes by LISTEN and NOTIFY, sent outside of the transactions that write tasks. Messages that cannot be
 * sent, or that exceed the bound of the outbox, are dropped. The other nodes are then told that they missed some.
 */
export class Bus extends EventEmitter<BusEvents> implements QueueBus {
  /** Identifies this node in its messages. */
  readonly id: string;
  readonly receiving: Link;
  readonly #options: BusOptions;
  /** Payloads to send. Equal payloads are sent once. */
  readonly #outbox = new Set<string>();
  #outboxBytes = 0;
  #sending: Promise<void> | undefined;
  /** Until when another node wants task events. */
  #followedUntil = 0;
  #cancelFollow: (() => void) | undefined;
  readonly #closed = new AbortController();

  constructor(options: BusOptions) {
    super();
    this.#options = options;
    this.id = options.random.uuid();
    this.receiving = new Link(options);
    this.receiving.on('notification', (payload) => this.#receive(payload));
    this.receiving.on('up', () => this.emit('missed'));
  }

  /** @throws {Error} if the server cannot be reached */
  open(): Promise<void> {
    return this.receiving.open();
  }

  listen(onMessage: (message: NodeMessage) => void, onMissed: () => void): void {
    this.on('message', (message) => {
      if (message.topic !== 'tick' && message.topic !== 'revoked') onMessage(message);
    });
    this.on('missed', onMissed);
  }

  follow(isFollowing: boolean): void {
    if (isFollowing === (this.#cancelFollow !== undefined)) return;
    this.#cancelFollow?.();
    this.#cancelFollow = undefined;
    if (isFollowing) this.#announceFollow();
  }

  send(message: BusMessage): void {
    const isWanted = message.topic !== 'event' || this.#followedUntil > this.#options.clock.now();
    if (isWanted) this.#push(message);
  }

  /** Lets all nodes, this one included, read the tables again, because much has changed at once. */
  changed(): void {
    this.#push({ topic: 'missed' });
    this.emit('missed');
  }

  /** Sends the messages that wait, without a retry, and closes. Never rejects. */
  async close(): Promise<void> {
    this.follow(false);
    this.#closed.abort();
    this.receiving.close();
    await this.#sending;
  }

  #announceFollow(): void {
    this.#push({ topic: 'follow' });
    this.#cancelFollow = this.#options.clock.timer(FOLLOW_INTERVAL_MS, () => this.#announceFollow());
  }

  #push(message: BusMessage | ControlMessage): void {
    if (this.#closed.signal.aborted) return;
    const payload = JSON.stringify({ from: this.id, ...message });
    const bytes = Buffer.byteLength(payload);
    if (bytes > MAX_PAYLOAD_BYTES) {
      const start = payload.slice(0, 200);
      this.#options.log.warn({ bytes, start }, 'a message to the other nodes is too long: it is dropped');
      return;
    }
    if (this.#outbox.has(payload)) return;
    if (this.#outboxBytes + bytes > MAX_OUTBOX_BYTES) {
      this.#takeOutbox();
      this.#push({ topic: 'missed' });
      return;
    }
    this.#outbox.add(payload);
    this.#outboxBytes += bytes;
    this.#sending ??= this.#sendAll();
  }

  async #sendAll(): Promise<void> {
    const { clock, database } = this.#options;
    const { signal } = this.#closed;
    // Until the end of the event loop turn, for all its messages.
    await clock.sleep(0, signal);
    while (this.#outbox.size > 0) {
      try {
        await notify(database.query, this.#takeOutbox());
        await clock.sleep(SEND_INTERVAL_MS, signal);
      } catch {
        // Without effect once the bus is closed: a closed bus does not retry.
        this.#push({ topic: 'missed' });
        await clock.sleep(RETRY_MS, signal);
      }
    }
    this.#sending = undefined;
  }

  #takeOutbox(): string[] {
    const payloads = [...this.#outbox];
    this.#outbox.clear();
    this.#outboxBytes = 0;
    return payloads;
  }

  #receive(payload: string): void {
    const message = parse(payload);
    if (message === undefined || message.from === this.id) return;
    if (message.topic === 'follow') this.#followedUntil = this.#options.clock.now() + FOLLOW_LIFETIME_MS;
    else if (message.topic === 'missed') this.emit('missed');
    else this.emit('message', message);
  }
}

/**
 * Returns undefined for a payload that is not a message. Anyone with access to the database can send a notification, so
 * the sender, the topic, and the name and id of a task event are checked here. The tick feed checks ticks.
 */
function parse(payload: string): ((BusMessage | ControlMessage) & { from: string }) | undefined {
  try {
    const message = JSON.parse(payload);
    if (typeof message?.from !== 'string' || typeof message.topic !== 'string') return undefined;
    if (message.topic !== 'event') return message;
    const { event } = message;
    return typeof event?.event === 'string' && typeof event.id === 'string' ? message : undefined;
  } catch {
    return undefined;
  }
}
