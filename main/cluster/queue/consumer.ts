import type { Msg } from '@nats-io/transport-node';
import { Fifo } from '../../tasks/queue/fifo.ts';
import type { Delivery, Settlement } from '../../tasks/queue/queue.ts';
import type { OwnMessages } from './counts.ts';
import { type PendingDelivery, pendingDelivery } from './pending-delivery.ts';
import { PullRequester } from './pull-requester.ts';
import { NatsSettler, type SettlerParts } from './settlement.ts';
import { CONSUMER_NAME, streamName } from './streams.ts';

/** Number of in-progress acks sent per ack wait. JetStream redelivers a message only if several of them are lost. */
const PROGRESS_ACKS = 4;

export interface NatsConsumerOptions extends SettlerParts {
  prefix: string;
  ackWaitMs: number;
}

/**
 * Deliveries of this node, from their arrival until they are settled. A released delivery can be taken again at once, in its
 * original position. After the dispatcher has stopped, a released delivery is requeued for all nodes instead.
 */
export class NatsConsumer {
  /** Called with each message that arrives at this node, before the dispatcher can take it. */
  onArrival: (pending: PendingDelivery) => void = () => {};
  readonly #options: NatsConsumerOptions;
  readonly #settler: NatsSettler;
  /** Unsettled deliveries, by the stream sequence of their message. A delivery is removed when its settlement starts. */
  readonly #pending = new Map<number, PendingDelivery>();
  /** Pending deliveries that the dispatcher can take. */
  readonly #ready = new Fifo<PendingDelivery>();
  /** Pending deliveries that the dispatcher has taken and not settled. */
  readonly #inFlight = new Map<Delivery, PendingDelivery>();
  /**
   * Messages that this node returned to JetStream for redelivery, by stream sequence. A message is removed when it arrives again,
   * or two ack waits after `dueAt`, because another node then has it.
   */
  readonly #awaitingRedelivery = new Map<number, { acceptedAt: number; dueAt: number }>();
  /** Redelivered messages whose stored state is being read. */
  readonly #resolving = new Set<PendingDelivery>();
  /** Promises of operations in progress, which `close` awaits. */
  readonly #operations = new Set<Promise<unknown>>();
  readonly #progressTimer: NodeJS.Timeout;
  /** Pull requester, present from the call of `onReady` until its listener is removed. */
  #requester: PullRequester | undefined;
  #onReady = () => {};
  /** Number of deliveries that the last `take` requested and did not get. */
  #wanted = 0;
  /** Number of messages that have arrived at this node. */
  #arrivals = 0;

  constructor(options: NatsConsumerOptions) {
    this.#options = options;
    this.#settler = new NatsSettler(options);
    this.#progressTimer = setInterval(() => this.#keepAlive(), options.ackWaitMs / PROGRESS_ACKS).unref();
  }

  /** Starts to request messages. @returns a function that ends the requests and requeues the deliveries that were not taken */
  onReady(listener: () => void): () => void {
    if (this.#requester !== undefined) this.#stop();
    const requester = new PullRequester({
      link: this.#options.link,
      stream: streamName(this.#options.prefix, 'tasks'),
      consumer: CONSUMER_NAME,
      room: () => this.#wanted - this.#ready.size - this.#resolving.size,
      receive: (message) => this.#arrive(message),
    });
    this.#requester = requester;
    this.#onReady = listener;
    return () => {
      if (this.#requester === requester) this.#stop();
    };
  }

  /** Takes up to `max` deliveries that have arrived, and requests the missing ones from JetStream. */
  take(max: number): Delivery[] {
    const deliveries: Delivery[] = [];
    while (deliveries.length < max) {
      const pending = this.#ready.shift();
      if (pending === undefined) break;
      const delivery = deliveryOf(pending);
      this.#inFlight.set(delivery, pending);
      deliveries.push(delivery);
    }
    this.#wanted = max - deliveries.length;
    this.#requester?.ask();
    return deliveries;
  }

  async markRunning(delivery: Delivery): Promise<void> {
    const pending = this.#inFlight.get(delivery);
    if (pending === undefined) return;
    pending.isRunning = true;
    await this.#track(this.#settler.markRunning(pending));
  }

  async settle(delivery: Delivery, settlement: Settlement): Promise<void> {
    const pending = this.#inFlight.get(delivery);
    if (pending === undefined) return;
    this.#inFlight.delete(delivery);
    pending.isRunning = false;
    await this.#track(this.#options.counts.during(() => this.#settle(pending, settlement)));
  }

  find(id: string): PendingDelivery | undefined {
    for (const pending of this.#pending.values()) if (pending.id === id) return pending;
    return undefined;
  }

  own(): OwnMessages {
    const now = Date.now();
    let delayed = 0;
    for (const { dueAt } of this.#awaitingRedelivery.values()) if (dueAt > now) delayed += 1;
    return { inFlight: this.#inFlight.size, delayed, pending: this.#pending.size + this.#awaitingRedelivery.size };
  }

  /** Yields the pending deliveries and the messages that this node returned to JetStream for redelivery. */
  *unsettled(): Generator<{ acceptedAt: number }> {
    yield* this.#pending.values();
    yield* this.#awaitingRedelivery.values();
  }

  /** Repeats the requests to JetStream. Must be called after every reconnect. */
  renew(): void {
    this.#requester?.renew();
  }

  /** Requeues all deliveries, and waits up to a few seconds for settlements in progress. */
  async close(): Promise<void> {
    this.#stop();
    this.#inFlight.clear();
    // Skips the messages whose state is still being read, because `#admit` requeues them.
    for (const pending of this.#pending.values()) if (!this.#resolving.has(pending)) void this.#requeue(pending);
    while (this.#operations.size > 0) await Promise.all(this.#operations);
    clearInterval(this.#progressTimer);
  }

  #stop(): void {
    this.#onReady = () => {};
    this.#wanted = 0;
    if (this.#requester !== undefined) void this.#track(this.#requester.stop());
    this.#requester = undefined;
    for (let next = this.#ready.shift(); next !== undefined; next = this.#ready.shift()) void this.#requeue(next);
  }

  #arrive(message: Msg): void {
    const pending = pendingDelivery(message, ++this.#arrivals);
    const known = this.#pending.get(pending.streamSequence);
    if (known !== undefined) {
      // The in-progress acks were lost, so JetStream redelivered the message, to the node that already has it.
      Object.assign(known, { reply: pending.reply, deliveries: pending.deliveries, progressAt: pending.progressAt });
      return;
    }
    this.#pending.set(pending.streamSequence, pending);
    this.#awaitingRedelivery.delete(pending.streamSequence);
    this.#options.events.arrived(pending.id);
    this.onArrival(pending);
    if (pending.deliveries === 1) this.#admit(pending);
    else void this.#track(this.#resolve(pending));
  }

  async #resolve(pending: PendingDelivery): Promise<void> {
    this.#resolving.add(pending);
    try {
      const isUnfinished = await this.#options.counts.during(() => this.#settler.resolve(pending));
      this.#resolving.delete(pending);
      if (isUnfinished) return this.#admit(pending);
    } catch {
      // If the state cannot be read, JetStream redelivers the message after its ack wait.
      this.#resolving.delete(pending);
    }
    this.#remove(pending);
  }

  #admit(pending: PendingDelivery): void {
    if (this.#requester === undefined) return void this.#requeue(pending);
    this.#ready.push(pending);
    this.#onReady();
  }

  #settle(pending: PendingDelivery, settlement: Settlement): Promise<void> {
    if (settlement.kind === 'release') return this.#release(pending);
    this.#remove(pending);
    if (settlement.kind === 'ack') return this.#settler.complete(pending);
    if (settlement.kind === 'discard') return this.#settler.deadLetter(pending, settlement);
    const dueAt = Date.now() + settlement.delayMs;
    this.#awaitingRedelivery.set(pending.streamSequence, { acceptedAt: pending.acceptedAt, dueAt });
    return this.#settler.postpone(pending, settlement, dueAt);
  }

  async #release(pending: PendingDelivery): Promise<void> {
    if (this.#requester === undefined) return this.#requeue(pending);
    const recorded = this.#settler.unmarkRunning(pending);
    this.#ready.putBack(pending, ({ turn }) => turn < pending.turn);
    this.#onReady();
    await recorded;
  }

  #requeue(pending: PendingDelivery): Promise<void> {
    this.#awaitingRedelivery.set(pending.streamSequence, { acceptedAt: pending.acceptedAt, dueAt: 0 });
    this.#remove(pending);
    // If the requeue fails, JetStream redelivers the message after its ack wait.
    return this.#track(this.#options.counts.during(() => this.#settler.requeue(pending)).catch(() => {}));
  }

  #remove(pending: PendingDelivery): void {
    this.#pending.delete(pending.streamSequence);
    this.#requester?.ask();
  }

  #track<T>(operation: Promise<T>): Promise<T> {
    const untrack = () => void this.#operations.delete(tracked);
    const tracked: Promise<void> = operation.then(untrack, untrack);
    this.#operations.add(tracked);
    return operation;
  }

  #keepAlive(): void {
    const { link, ackWaitMs } = this.#options;
    const now = Date.now();
    for (const pending of this.#pending.values()) {
      if (!link.up || now - pending.progressAt < ackWaitMs / PROGRESS_ACKS / 2) continue;
      pending.progressAt = now;
      link.connection.publish(pending.reply, '+WPI');
    }
    for (const [streamSequence, { dueAt }] of this.#awaitingRedelivery)
      if (dueAt + 2 * ackWaitMs < now) this.#awaitingRedelivery.delete(streamSequence);
    this.#requester?.check();
  }
}

function deliveryOf({ id, body, sequence, acceptedAt, note }: PendingDelivery): Delivery {
  const { attempts, crashes, suspect } = note;
  return { message: { id, body }, sequence, acceptedAt, attempt: attempts + 1, crashes, suspect };
}
