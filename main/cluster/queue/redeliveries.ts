import type { PendingDelivery } from './pending-delivery.ts';

interface Redelivery {
  id: string;
  acceptedAt: number;
  /** Earliest time of the redelivery, in milliseconds since the epoch. */
  dueAt: number;
  /** Whether JetStream has confirmed the nak, so that it does not redeliver the message before `dueAt`. */
  isConfirmed: boolean;
  /** Time when a node last asked to cancel the message, in milliseconds since the epoch. Undefined if none has since the last check. */
  askedAt?: number | undefined;
}

/**
 * Messages that this node returned to JetStream for redelivery, by stream sequence. A message is removed when it arrives again, when
 * another node reports an event of its task, or two ack waits after `dueAt`, because another node has it by then.
 */
export class Redeliveries {
  readonly #awaited = new Map<number, Redelivery>();
  /** Stream sequences by task id. */
  readonly #sequences = new Map<string, number>();

  get size(): number {
    return this.#awaited.size;
  }

  /** @param dueAt earliest time of the redelivery, in milliseconds since the epoch; 0 if it may follow at once */
  add({ id, streamSequence, acceptedAt }: PendingDelivery, dueAt = 0): void {
    this.#awaited.set(streamSequence, { id, acceptedAt, dueAt, isConfirmed: false });
    this.#sequences.set(id, streamSequence);
  }

  /** Registers that JetStream has confirmed the nak of a message. */
  confirm(streamSequence: number): void {
    const redelivery = this.#awaited.get(streamSequence);
    if (redelivery !== undefined) redelivery.isConfirmed = true;
  }

  remove(streamSequence: number): void {
    const id = this.#awaited.get(streamSequence)?.id;
    this.#awaited.delete(streamSequence);
    if (id !== undefined && this.#sequences.get(id) === streamSequence) this.#sequences.delete(id);
  }

  /** Removes the message of a task. */
  removeTask(id: string): void {
    const streamSequence = this.#sequences.get(id);
    if (streamSequence !== undefined) this.remove(streamSequence);
  }

  /** Registers that a node asks to cancel a message, so that the message may be deleted soon. */
  markAsked(streamSequence: number): void {
    const redelivery = this.#awaited.get(streamSequence);
    if (redelivery !== undefined) redelivery.askedAt = Date.now();
  }

  /**
   * Returns the stream sequences of up to `max` messages that a node asked about before a time, and clears their mark.
   *
   * @param before time in milliseconds since the epoch
   */
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

  /** Returns the id of a task whose retry or snooze is not due yet, or undefined if the message is due or unknown. */
  delayedTask(streamSequence: number): string | undefined {
    const redelivery = this.#awaited.get(streamSequence);
    return redelivery?.isConfirmed && redelivery.dueAt > Date.now() ? redelivery.id : undefined;
  }

  /** Returns the number of messages whose retry or snooze is not due yet. */
  delayed(): number {
    const now = Date.now();
    let delayed = 0;
    for (const { dueAt } of this.#awaited.values()) if (dueAt > now) delayed += 1;
    return delayed;
  }

  values(): Iterable<{ acceptedAt: number }> {
    return this.#awaited.values();
  }

  /** Removes the messages that another node must have by now. */
  evict(ackWaitMs: number): void {
    const now = Date.now();
    for (const [streamSequence, { dueAt }] of this.#awaited)
      if (dueAt + 2 * ackWaitMs < now) this.remove(streamSequence);
  }
}
