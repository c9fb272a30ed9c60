import type { PendingDelivery } from './pending-delivery.ts';

interface Redelivery {
  id: string;
  acceptedAt: number;
  /** Earliest time of the redelivery, in milliseconds since the epoch. */
  dueAt: number;
  /** Whether JetStream has confirmed the nak. JetStream does not redeliver a confirmed message before `dueAt`. */
  isConfirmed: boolean;
  /** Time of the last cancellation request, in milliseconds since the epoch. */
  askedAt?: number | undefined;
}

/**
 * Messages that this node has returned to JetStream for redelivery. A message is removed when it arrives, or when
 * another node reports an event of its task. Otherwise it is evicted two ack waits after `dueAt`, unless the queue is
 * paused.
 */
export class Redeliveries {
  readonly #awaited = new Map<number, Redelivery>();
  readonly #sequences = new Map<string, number>();

  get size(): number {
    return this.#awaited.size;
  }

  /** @param dueAt earliest redelivery time in milliseconds since the epoch; 0 for an immediate redelivery */
  add({ id, streamSequence, acceptedAt }: PendingDelivery, dueAt = 0): void {
    this.#awaited.set(streamSequence, { id, acceptedAt, dueAt, isConfirmed: false });
    this.#sequences.set(id, streamSequence);
  }

  confirm(streamSequence: number): void {
    const redelivery = this.#awaited.get(streamSequence);
    if (redelivery !== undefined) redelivery.isConfirmed = true;
  }

  remove(streamSequence: number): void {
    const id = this.#awaited.get(streamSequence)?.id;
    this.#awaited.delete(streamSequence);
    if (id !== undefined && this.#sequences.get(id) === streamSequence) this.#sequences.delete(id);
  }

  removeTask(id: string): void {
    const streamSequence = this.#sequences.get(id);
    if (streamSequence !== undefined) this.remove(streamSequence);
  }

  markAsked(streamSequence: number): void {
    const redelivery = this.#awaited.get(streamSequence);
    if (redelivery !== undefined) redelivery.askedAt = Date.now();
  }

  /** Unmarks up to `max` messages that `markAsked` marked before `before` (epoch ms). Returns their sequences. */
  takeAsked(before: number, max: number): number[] {
    const taken: number[] = [];
    for (const [streamSequence, redelivery] of this.#awaited) {
      if (taken.length === max) break;
      if (redelivery.askedAt === undefined || redelivery.askedAt >= before) continue;
      redelivery.askedAt = undefined;
      taken.push(streamSequence);
    }
    return taken;
  }

  /** Returns the task id of a message whose retry or snooze is not due yet, otherwise undefined. */
  delayedTask(streamSequence: number): string | undefined {
    const redelivery = this.#awaited.get(streamSequence);
    return redelivery?.isConfirmed && redelivery.dueAt > Date.now() ? redelivery.id : undefined;
  }

  delayed(): number {
    const now = Date.now();
    let delayed = 0;
    for (const { dueAt } of this.#awaited.values()) if (dueAt > now) delayed += 1;
    return delayed;
  }

  values(): Iterable<{ acceptedAt: number }> {
    return this.#awaited.values();
  }

  /** Stops expecting messages that are two ack waits overdue, because JetStream must have sent them to another node. */
  evict(ackWaitMs: number): void {
    const now = Date.now();
    for (const [streamSequence, { dueAt }] of this.#awaited)
      if (dueAt + 2 * ackWaitMs < now) this.remove(streamSequence);
  }
}
