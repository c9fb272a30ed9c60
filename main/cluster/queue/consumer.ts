import type { Msg } from '@nats-io/transport-node';
import { DeadLetterQueue } from '../../tasks/queue/dead-letter-queue.ts';
import { subjectOf } from '../../tasks/queue/event-subject.ts';
import type { Delivery, Queue, Settlement, SettlementOf, TaskProgress } from '../../tasks/queue/queue.ts';
import { type Answer, Canceller } from './canceller.ts';
import { NodeDeliveries } from './node-deliveries.ts';
import { Operations } from './operations.ts';
import { OwnCancellations } from './own-cancellations.ts';
import { type PendingDelivery, pendingDelivery } from './pending-delivery.ts';
import { NatsPublisher } from './publisher.ts';
import { PullRequester } from './pull-requester.ts';
import type { QueueParts } from './queue-parts.ts';
import { NatsSettler } from './settlement.ts';

/** Number of in-progress acks sent per ack wait. JetStream redelivers a message only if several in a row are lost. */
const PROGRESS_ACKS = 4;

/**
 * Receives messages from JetStream and settles them. A released delivery stays on this node, in its original position.
 * After the dispatcher has stopped, a released delivery is requeued for all nodes.
 */
export abstract class NatsConsumer
  extends DeadLetterQueue
  implements Pick<Queue, 'onReady' | 'onCancel' | 'take' | 'markRunning' | 'reportProgress' | 'settle' | 'close'>
{
  protected readonly parts: QueueParts;
  protected readonly publisher: NatsPublisher;
  protected isClosed = false;
  protected readonly canceller: Canceller;
  readonly #settler: NatsSettler;
  readonly #cancellations: OwnCancellations;
  protected readonly deliveries = new NodeDeliveries();
  readonly #operations = new Operations();
  readonly #progressTimer: NodeJS.Timeout;
  /** Undefined unless an `onReady` listener is registered and the queue is not paused. */
  #requester: PullRequester | undefined;
  #onReady: (() => void) | undefined;
  /** Number of deliveries that the last `take` asked for but did not get. */
  #wanted = 0;
  #arrivals = 0;

  constructor(parts: QueueParts) {
    super();
    this.parts = parts;
    this.publisher = new NatsPublisher(parts);
    this.#settler = new NatsSettler(parts);
    this.#cancellations = new OwnCancellations(parts, this.deliveries, this.#settler);
    this.canceller = new Canceller({
      parts,
      cancelHere: (streamSequence) => this.#cancelHere(streamSequence),
      withdraw: (id, message) => this.#operations.track(this.#cancellations.withdraw(id, message)),
    });
    parts.events.onElsewhere((id) => this.deliveries.redeliveries.removeTask(id));
    this.#progressTimer = setInterval(() => this.#keepAlive(), parts.ackWaitMs / PROGRESS_ACKS).unref();
  }

  /** Starts requesting messages. Returns a function that stops the requests and requeues deliveries not yet taken. */
  onReady(listener: () => void): () => void {
    if (this.isClosed) return () => {};
    this.#stop();
    this.#onReady = listener;
    if (!this.paused) this.#start();
    return () => {
      if (this.#onReady !== listener) return;
      this.#onReady = undefined;
      this.#stop();
    };
  }

  onCancel(listener: (delivery: Delivery) => boolean): () => void {
    return this.#cancellations.onCancel(listener);
  }

  /** Returns up to `max` deliveries that have arrived. Requests more messages from JetStream if necessary. */
  take(max: number): Delivery[] {
    const deliveries: Delivery[] = [];
    while (deliveries.length < max) {
      const delivery = this.deliveries.take();
      if (delivery === undefined) break;
      deliveries.push(delivery);
    }
    this.#wanted = max - deliveries.length;
    this.#requester?.ask();
    return deliveries;
  }

  async markRunning(delivery: Delivery): Promise<void> {
    const pending = this.deliveries.inFlight(delivery);
    if (pending === undefined) return;
    pending.isRunning = true;
    pending.startedAt = Date.now();
    await this.#operations.track(this.#settler.markRunning(pending));
  }

  async settle(delivery: Delivery, settlement: Settlement): Promise<void> {
    const pending = this.deliveries.inFlight(delivery);
    if (pending === undefined) return;
    this.deliveries.end(pending);
    await this.#operations.track(this.parts.counts.during(() => this.#settle(pending, settlement)));
  }

  reportProgress(delivery: Delivery, progress: TaskProgress): void {
    const pending = this.deliveries.inFlight(delivery);
    if (!pending?.isRunning) return;
    pending.progress = progress;
    this.parts.events.tell({ event: 'progress', ...subjectOf(pending), attempt: delivery.attempt, ...progress });
  }

  /** Requeues all deliveries. Waits up to a few seconds for settlements in progress. */
  async close(): Promise<void> {
    this.isClosed = true;
    this.#onReady = undefined;
    this.#stop();
    this.canceller.close();
    this.deliveries.endAll();
    const { resolving } = this.deliveries;
    // Skips deliveries whose state is still being read. `#admit` requeues them later.
    for (const pending of this.deliveries.all()) if (!resolving.has(pending)) void this.#requeue(pending);
    await this.#operations.settled();
    clearInterval(this.#progressTimer);
  }

  protected override storePause(isPaused: boolean): Promise<void> {
    this.parts.link.checkUp();
    return this.parts.pauses.write(isPaused);
  }

  protected override setPaused(isPaused: boolean): boolean {
    if (!super.setPaused(isPaused)) return false;
    if (isPaused) this.#stop();
    else if (this.#onReady !== undefined) {
      this.#start();
      this.#onReady();
    }
    return true;
  }

  #start(): void {
    this.#requester = new PullRequester({
      tasks: this.parts.tasks,
      room: () => this.#wanted - this.deliveries.untaken,
      receive: (message) => this.#arrive(message),
    });
  }

  #stop(): void {
    this.#wanted = 0;
    if (this.#requester !== undefined) void this.#operations.track(this.#requester.stop());
    this.#requester = undefined;
    for (let next = this.deliveries.shift(); next !== undefined; next = this.deliveries.shift())
      void this.#requeue(next);
  }

  #arrive(message: Msg): void {
    const pending = pendingDelivery(message, ++this.#arrivals);
    const known = this.deliveries.at(pending.streamSequence);
    if (known !== undefined) {
      // JetStream redelivered the message to the same node, because in-progress acks were lost.
      Object.assign(known, { reply: pending.reply, deliveries: pending.deliveries, progressAt: pending.progressAt });
      return;
    }
    this.deliveries.add(pending);
    this.parts.events.arrived(pending.id);
    // Counts the message before `#admit`, because an admitted message may be settled and subtracted from the count.
    this.publisher.arrived(pending);
    const { deliveries, streamSequence } = pending;
    // JetStream may have lost the count of the deliveries together with an ack.
    const isCompleted = this.#settler.isCompleted(streamSequence);
    const isNew = deliveries === 1 && !isCompleted && !this.canceller.wasAsked(streamSequence);
    if (isNew) this.#admit(pending);
    else void this.#operations.track(this.#resolve(pending));
  }

  async #resolve(pending: PendingDelivery): Promise<void> {
    const { resolving } = this.deliveries;
    resolving.add(pending);
    await this.canceller.released(pending.streamSequence);
    // If `resolve` fails, JetStream redelivers the message after the ack wait.
    const resolve = async () => !pending.isCancelled && (await this.#settler.resolve(pending));
    const isUnfinished = await this.parts.counts.during(resolve).catch(() => false);
    resolving.delete(pending);
    if (pending.isCancelled) return;
    if (isUnfinished) this.#admit(pending);
    else this.#remove(pending);
  }

  #admit(pending: PendingDelivery): void {
    if (this.#requester === undefined) return void this.#requeue(pending);
    this.deliveries.admit(pending);
    this.#onReady?.();
  }

  #cancelHere(streamSequence: number): Promise<Answer> | undefined {
    const cancelled = this.#cancellations.cancel(streamSequence);
    this.#requester?.ask();
    return cancelled && this.#operations.track(cancelled);
  }

  #settle(pending: PendingDelivery, settlement: Settlement): Promise<void> {
    if (settlement.kind === 'release') return this.#release(pending);
    this.#remove(pending);
    if (settlement.kind === 'ack') return this.#settler.complete(pending);
    if (settlement.kind === 'discard') return this.#settler.deadLetter(pending, settlement);
    if (settlement.kind === 'cancel') return this.#settler.cancel(pending);
    return this.#postpone(pending, settlement);
  }

  async #postpone(pending: PendingDelivery, settlement: SettlementOf<'retry' | 'snooze'>): Promise<void> {
    const dueAt = Date.now() + settlement.delayMs;
    this.deliveries.redeliveries.add(pending, dueAt);
    if (await this.#settler.postpone(pending, settlement, dueAt))
      this.deliveries.redeliveries.confirm(pending.streamSequence);
  }

  async #release(pending: PendingDelivery): Promise<void> {
    if (this.#requester === undefined) return this.#requeue(pending);
    const recorded = this.#settler.unmarkRunning(pending);
    this.deliveries.putBack(pending);
    this.#onReady?.();
    await recorded;
  }

  #requeue(pending: PendingDelivery): Promise<void> {
    this.deliveries.redeliveries.add(pending);
    this.#remove(pending);
    // If the requeue fails, JetStream redelivers the message after the ack wait.
    return this.#operations.track(this.parts.counts.during(() => this.#settler.requeue(pending)).catch(() => {}));
  }

  #remove(pending: PendingDelivery): void {
    this.deliveries.remove(pending);
    this.#requester?.ask();
  }

  #keepAlive(): void {
    const { link, ackWaitMs } = this.parts;
    const now = Date.now();
    for (const pending of this.deliveries.all()) {
      if (!link.up || now - pending.progressAt < ackWaitMs / PROGRESS_ACKS / 2) continue;
      pending.progressAt = now;
      link.connection.publish(pending.reply, '+WPI');
    }
    // While the queue is paused, an overdue requeued message is kept, because no other node can have received it.
    if (!this.paused) this.deliveries.redeliveries.evict(ackWaitMs);
    void this.#operations.track(this.#cancellations.removeWithdrawn());
    this.#requester?.check();
  }
}
