import { Fifo } from '../../tasks/queue/fifo.ts';
import type { Delivery, Settlement, SettlementOf } from '../../tasks/queue/queue.ts';
import type { NatsLink } from '../nats-link.ts';
import type { NatsCounts, OwnMessages } from './counts.ts';
import type { NatsEvents } from './events.ts';
import { Acknowledgements, type PendingDelivery, pendingDelivery } from './pending-delivery.ts';
import { type Arrival, PullRequester } from './pull-requester.ts';
import { NatsSettling, type SettlingParts } from './settlement.ts';
import { CONSUMER, streamName } from './streams.ts';

/** In-progress acks per ack wait: JetStream redelivers a message only after it has missed several. */
const PROGRESS_ACKS = 4;

export interface ConsumptionOptions extends Omit<SettlingParts, 'acknowledgements'> {
  prefix: string;
  ackWaitMs: number;
}

/**
 * The deliveries of this node, from their arrival until they are settled. A released delivery stays here, first among the
 * ready ones. Once the dispatcher has stopped, it is requeued for all nodes.
 */
export class NatsConsumer {
  /** Called for each message that arrives, before the listener of `onReady` is. */
  onArrival: (pending: PendingDelivery) => void = () => {};
  readonly #link: NatsLink;
  readonly #acknowledgements: Acknowledgements;
  readonly #settling: NatsSettling;
  readonly #counts: NatsCounts;
  readonly #events: NatsEvents;
  readonly #stream: string;
  /** By stream sequence. */
  readonly #pending = new Map<number, PendingDelivery>();
  /** Pending deliveries that can be taken. */
  readonly #ready = new Fifo<PendingDelivery>();
  /** Pending deliveries that were taken. */
  readonly #inFlight = new Map<Delivery, PendingDelivery>();
  /** Requeued messages, until they arrive again or are long due: then another node has them. */
  readonly #awaitingRedelivery = new Map<number, { acceptedAt: number; dueAt: number }>();
  /** Redelivered messages whose state is being read. */
  readonly #resolving = new Set<PendingDelivery>();
  readonly #operations = new Set<Promise<unknown>>();
  readonly #progressTimer: NodeJS.Timeout;
  /** Present from `onReady` until its listener is removed. */
  #intake: PullRequester | undefined;
  #onReady = () => {};
  /** Deliveries that the last `take` asked for and did not get. */
  #wanted = 0;
  #turns = 0;

  constructor(link: NatsLink, { prefix, ackWaitMs, ...parts }: ConsumptionOptions) {
    this.#link = link;
    this.#acknowledgements = new Acknowledgements(link);
    this.#settling = new NatsSettling({ ...parts, acknowledgements: this.#acknowledgements });
    this.#counts = parts.counts;
    this.#events = parts.events;
    this.#stream = streamName(prefix, 'tasks');
    this.#progressTimer = setInterval(() => this.#keepAlive(ackWaitMs), ackWaitMs / PROGRESS_ACKS).unref();
  }

  /** @returns a function that ends the requests to JetStream and requeues the deliveries that were not taken */
  onReady(listener: () => void): () => void {
    if (this.#intake !== undefined) this.#stop();
    const intake = new PullRequester({
      link: this.#link,
      stream: this.#stream,
      consumer: CONSUMER,
      room: () => this.#wanted - this.#ready.size - this.#resolving.size,
      receive: (arrival) => this.#arrive(arrival),
    });
    this.#intake = intake;
    this.#onReady = listener;
    return () => {
      if (this.#intake === intake) this.#stop();
    };
  }

  /** Takes deliveries that have arrived, and requests the rest from JetStream. */
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
    this.#intake?.ask();
    return deliveries;
  }

  async markRunning(delivery: Delivery): Promise<void> {
    const pending = this.#inFlight.get(delivery);
    if (pending === undefined) return;
    pending.isRunning = true;
    await this.#track(this.#settling.markRunning(pending));
  }

  async settle(delivery: Delivery, settlement: Settlement): Promise<void> {
    const pending = this.#inFlight.get(delivery);
    if (pending === undefined) return;
    this.#inFlight.delete(delivery);
    pending.isRunning = false;
    await this.#track(this.#counts.during(() => this.#settle(pending, settlement)));
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

  /** Pending and requeued messages. */
  *unsettled(): Generator<{ acceptedAt: number }> {
    yield* this.#pending.values();
    yield* this.#awaitingRedelivery.values();
  }

  /** To be called when the connection was replaced. */
  renew(): void {
    this.#intake?.renew();
  }

  /** Requeues everything, and waits for all settlements in progress: a few seconds at most. */
  async close(): Promise<void> {
    this.#stop();
    this.#inFlight.clear();
    // A message whose state is being read is requeued after that.
    for (const pending of this.#pending.values()) if (!this.#resolving.has(pending)) void this.#requeue(pending);
    while (this.#operations.size > 0) await Promise.all(this.#operations);
    clearInterval(this.#progressTimer);
  }

  #stop(): void {
    this.#onReady = () => {};
    this.#wanted = 0;
    if (this.#intake !== undefined) void this.#track(this.#intake.stop());
    this.#intake = undefined;
    for (let pending = this.#ready.shift(); pending !== undefined; pending = this.#ready.shift())
      void this.#requeue(pending);
  }

  #arrive(arrival: Arrival): void {
    const known = this.#pending.get(arrival.streamSequence);
    if (known !== undefined) {
      // JetStream has missed the in-progress acks, and redelivered the message to the node that has it.
      Object.assign(known, { reply: arrival.reply, deliveries: arrival.deliveries, progressAt: Date.now() });
      return;
    }
    const pending = pendingDelivery(arrival, ++this.#turns);
    this.#pending.set(pending.streamSequence, pending);
    this.#awaitingRedelivery.delete(pending.streamSequence);
    this.#events.arrived(pending.id);
    this.onArrival(pending);
    if (pending.deliveries === 1) this.#admit(pending);
    else void this.#track(this.#resolve(pending));
  }

  async #resolve(pending: PendingDelivery): Promise<void> {
    this.#resolving.add(pending);
    try {
      const open = await this.#counts.during(() => this.#settling.resolve(pending));
      this.#resolving.delete(pending);
      if (open) return this.#admit(pending);
    } catch {
      // JetStream redelivers the message after its ack wait.
      this.#resolving.delete(pending);
    }
    this.#leave(pending);
  }

  #admit(pending: PendingDelivery): void {
    if (this.#intake === undefined) return void this.#requeue(pending);
    this.#ready.push(pending);
    this.#onReady();
  }

  #settle(pending: PendingDelivery, settlement: Settlement): Promise<void> {
    switch (settlement.kind) {
      case 'ack':
        return this.#after(pending, this.#settling.complete(pending));
      case 'retry':
      case 'snooze':
        return this.#postpone(pending, settlement);
      case 'discard':
        return this.#after(pending, this.#settling.deadLetter(pending, settlement));
      case 'release':
        return this.#release(pending);
    }
  }

  #postpone(pending: PendingDelivery, settlement: SettlementOf<'retry' | 'snooze'>): Promise<void> {
    const dueAt = Date.now() + settlement.delayMs;
    this.#awaitingRedelivery.set(pending.streamSequence, { acceptedAt: pending.acceptedAt, dueAt });
    return this.#after(pending, this.#settling.postpone(pending, settlement, dueAt));
  }

  async #release(pending: PendingDelivery): Promise<void> {
    if (this.#intake === undefined) return this.#requeue(pending);
    const recorded = this.#settling.unmarkRunning(pending);
    this.#ready.putBack(pending, ({ turn }) => turn < pending.turn);
    this.#onReady();
    await recorded;
  }

  #requeue(pending: PendingDelivery): Promise<void> {
    this.#awaitingRedelivery.set(pending.streamSequence, { acceptedAt: pending.acceptedAt, dueAt: 0 });
    const requeued = this.#after(
      pending,
      this.#counts.during(() => this.#settling.requeue(pending)),
    );
    // If that fails, JetStream redelivers the message after its ack wait.
    return this.#track(requeued.catch(() => {}));
  }

  /** Removes a delivery that is being settled. */
  #after(pending: PendingDelivery, settled: Promise<void>): Promise<void> {
    this.#leave(pending);
    return settled;
  }

  #leave(pending: PendingDelivery): void {
    this.#pending.delete(pending.streamSequence);
    this.#intake?.ask();
  }

  #track<T>(operation: Promise<T>): Promise<T> {
    const over = () => void this.#operations.delete(tracked);
    const tracked: Promise<void> = operation.then(over, over);
    this.#operations.add(tracked);
    return operation;
  }

  #keepAlive(ackWaitMs: number): void {
    const now = Date.now();
    for (const pending of this.#pending.values())
      if (now - pending.progressAt >= ackWaitMs / PROGRESS_ACKS / 2) this.#acknowledgements.inProgress(pending);
    for (const [streamSequence, { dueAt }] of this.#awaitingRedelivery)
      if (dueAt + 2 * ackWaitMs < now) this.#awaitingRedelivery.delete(streamSequence);
    this.#intake?.check();
  }
}

function deliveryOf({ id, body, sequence, acceptedAt, note }: PendingDelivery): Delivery {
  const { attempts, crashes, suspect } = note;
  return { message: { id, body }, sequence, acceptedAt, attempt: attempts + 1, crashes, suspect };
}
