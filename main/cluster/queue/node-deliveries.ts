import { Fifo } from '../../tasks/queue/fifo.ts';
import type { Delivery } from '../../tasks/queue/queue.ts';
import type { OwnMessages } from './counts.ts';
import type { PendingDelivery } from './pending-delivery.ts';
import { Redeliveries } from './redeliveries.ts';

/** Unsettled deliveries on this node, and messages that this node has returned to JetStream. */
export class NodeDeliveries {
  readonly redeliveries = new Redeliveries();
  /** Deliveries whose state is being read, or that are held back because of a cancellation request. */
  readonly resolving = new Set<PendingDelivery>();
  /** Unsettled deliveries by stream sequence. A delivery is removed when its settlement starts. */
  readonly #pending = new Map<number, PendingDelivery>();
  /** Deliveries that the dispatcher can take. Cancelled deliveries are skipped when they are taken out. */
  readonly #ready = new Fifo<PendingDelivery>();
  readonly #inFlight = new Map<Delivery, PendingDelivery>();

  /** Number of deliveries that the dispatcher has not taken, including those whose state is still being read. */
  get untaken(): number {
    return this.#ready.size + this.resolving.size;
  }

  add(pending: PendingDelivery): void {
    this.#pending.set(pending.streamSequence, pending);
    this.redeliveries.remove(pending.streamSequence);
  }

  at(streamSequence: number): PendingDelivery | undefined {
    return this.#pending.get(streamSequence);
  }

  find(id: string): PendingDelivery | undefined {
    for (const pending of this.#pending.values()) if (pending.id === id) return pending;
    return undefined;
  }

  all(): Iterable<PendingDelivery> {
    return this.#pending.values();
  }

  admit(pending: PendingDelivery): void {
    this.#ready.push(pending);
  }

  /** Makes a released delivery ready to be taken, in its original position. */
  putBack(pending: PendingDelivery): void {
    this.#ready.putBack(pending, ({ turn }) => turn < pending.turn);
  }

  /** Removes and returns the first ready delivery that is not cancelled. */
  shift(): PendingDelivery | undefined {
    let next = this.#ready.shift();
    while (next?.isCancelled) next = this.#ready.shift();
    return next;
  }

  take(): Delivery | undefined {
    const pending = this.shift();
    if (pending === undefined) return undefined;
    const delivery = deliveryOf(pending);
    pending.delivery = delivery;
    this.#inFlight.set(delivery, pending);
    return delivery;
  }

  inFlight(delivery: Delivery): PendingDelivery | undefined {
    return this.#inFlight.get(delivery);
  }

  /** Ends a delivery's attempt, if any, without settling the delivery. */
  end(pending: PendingDelivery): void {
    if (pending.delivery !== undefined) this.#inFlight.delete(pending.delivery);
    pending.delivery = pending.progress = pending.startedAt = undefined;
    pending.isRunning = false;
  }

  endAll(): void {
    for (const pending of this.#inFlight.values()) this.end(pending);
  }

  remove(pending: PendingDelivery): void {
    this.#pending.delete(pending.streamSequence);
  }

  /** Marks a delivery as cancelled before its attempt starts, and removes the delivery from this node. */
  drop(pending: PendingDelivery): void {
    this.end(pending);
    pending.isCancelled = true;
    this.remove(pending);
  }

  own(): OwnMessages {
    const { redeliveries } = this;
    const pending = this.#pending.size + redeliveries.size;
    return { inFlight: this.#inFlight.size, delayed: redeliveries.delayed(), pending };
  }

  /** Yields the unsettled deliveries, and the messages that this node has returned to JetStream. */
  *unsettled(): Generator<{ acceptedAt: number }> {
    yield* this.#pending.values();
    yield* this.redeliveries.values();
  }
}

function deliveryOf({ id, body, sequence, acceptedAt, note }: PendingDelivery): Delivery {
  const { attempts, crashes, suspect } = note;
  return { message: { id, body }, sequence, acceptedAt, attempt: attempts + 1, crashes, suspect };
}
