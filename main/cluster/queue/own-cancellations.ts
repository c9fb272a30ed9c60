import type { StoredMsg } from '@nats-io/jetstream';
import type { Delivery } from '../../tasks/queue/queue.ts';
import type { Answer } from './canceller.ts';
import type { NodeDeliveries } from './node-deliveries.ts';
import type { PendingDelivery } from './pending-delivery.ts';
import type { QueueParts } from './queue-parts.ts';
import type { NatsSettler } from './settlement.ts';

const MAX_CHECKED = 100;

/** Cancels tasks whose message was delivered to this node, and tasks whose message awaits delivery. */
export class OwnCancellations {
  readonly #parts: QueueParts;
  readonly #deliveries: NodeDeliveries;
  readonly #settler: NatsSettler;
  #listener: (delivery: Delivery) => boolean = () => false;

  constructor(parts: QueueParts, deliveries: NodeDeliveries, settler: NatsSettler) {
    this.#parts = parts;
    this.#deliveries = deliveries;
    this.#settler = settler;
  }

  /** Sets the listener of `Queue.onCancel`. Returns a function that removes the listener. */
  onCancel(listener: (delivery: Delivery) => boolean): () => void {
    this.#listener = listener;
    return () => {
      if (this.#listener === listener) this.#listener = () => false;
    };
  }

  /** Returns undefined if this node does not have the message. @throws {Error} if the cancellation is not stored */
  cancel(streamSequence: number): Promise<Answer> | undefined {
    const deliveries = this.#deliveries;
    const pending = deliveries.at(streamSequence);
    if (pending !== undefined) {
      if (pending.delivery !== undefined && !this.#listener(pending.delivery)) return Promise.resolve('running');
      const isResolving = deliveries.resolving.has(pending);
      deliveries.drop(pending);
      return this.#parts.counts.during(() => this.#cancel(pending, isResolving));
    }
    if (this.#settler.isCompleted(streamSequence)) return Promise.resolve('completed');
    const delayed = deliveries.redeliveries.delayedTask(streamSequence);
    const isDelayed = delayed !== undefined && this.#parts.events.runningElsewhere(delayed) === undefined;
    if (!isDelayed) return undefined;
    deliveries.redeliveries.markAsked(streamSequence);
    return Promise.resolve('delayed');
  }

  /** Stops expecting redeliveries of tasks that another node cancelled without this node noticing. Never rejects. */
  async removeWithdrawn(): Promise<void> {
    const { link, holdMs } = this.#parts;
    if (!link.up) return;
    const asked = this.#deliveries.redeliveries.takeAsked(Date.now() - holdMs, MAX_CHECKED);
    await Promise.all(asked.map((streamSequence) => this.#removeIfDeleted(streamSequence)));
  }

  /** Cancels a message that no node has. @throws {Error} if the cancellation cannot be recorded */
  async withdraw(id: string, message: StoredMsg): Promise<void> {
    await this.#parts.counts.during(() => this.#settler.withdraw(id, message));
    this.#deliveries.redeliveries.remove(message.seq);
    // Drops a delivery of the message that arrived while the cancellation was being stored.
    const pending = this.#deliveries.at(message.seq);
    if (pending !== undefined) this.#deliveries.drop(pending);
  }

  async #removeIfDeleted(streamSequence: number): Promise<void> {
    const { redeliveries } = this.#deliveries;
    try {
      if ((await this.#parts.tasks.at(streamSequence)) === null) redeliveries.remove(streamSequence);
    } catch {
      // Makes a later call of `removeWithdrawn` check the message again.
      redeliveries.markAsked(streamSequence);
    }
  }

  async #cancel(pending: PendingDelivery, isResolving: boolean): Promise<Answer> {
    try {
      if (isResolving && !(await this.#settler.resolve(pending))) return 'completed';
      await this.#settler.cancel(pending);
      return 'cancelled';
    } catch (error) {
      this.#deliveries.redeliveries.add(pending);
      throw error;
    }
  }
}
