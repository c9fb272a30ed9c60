import type { StoredMsg } from '@nats-io/jetstream';
import { withAttempt } from '../../../db/attempt-history.ts';
import { actionStart } from '../../../workers/parse-submission.ts';
import { subjectOf } from '../../tasks/queue/event-subject.ts';
import type { DeadLetter, SettlementOf } from '../../tasks/queue/queue.ts';
import { REQUEST_TIMEOUT_MS } from '../nats-link.ts';
import { Acks } from './acks.ts';
import { CompletedMessages } from './completed-messages.ts';
import { type DeliveryState, initialDeliveryState, resolveDeliveryState } from './delivery-state.ts';
import { type PendingDelivery, textOf } from './pending-delivery.ts';
import type { QueueParts } from './queue-parts.ts';
import { token } from './stream.ts';

/** Settles messages in JetStream. Always stores a message's state before acknowledging the message. */
export class NatsSettler {
  readonly #parts: QueueParts;
  readonly #acks: Acks;
  /** A redelivery of such a message is only acked, because its ack was lost. */
  readonly #completed = new CompletedMessages();

  constructor(parts: QueueParts) {
    this.#parts = parts;
    this.#acks = new Acks(parts.link);
  }

  /** Loads the delivery state. Returns false if the message is already completed, dead-lettered or cancelled. */
  async resolve(pending: PendingDelivery): Promise<boolean> {
    const { notes, letters, cancellations, events } = this.#parts;
    const [note, stored, isCancelled] = await Promise.all([
      notes.get(token(pending.id)),
      letters.get(pending.id),
      cancellations.has(pending.id, pending.streamSequence),
    ]);
    pending.noteRevision = note?.revision ?? 0;
    const earlier = note === undefined || isStale(note.value, pending) ? initialDeliveryState : note.value;
    pending.note = resolveDeliveryState(earlier, pending.deliveries);
    // If the task stream was deleted and created again, another task has the stream sequence of a completed one.
    const isCompleted = this.#completed.idAt(pending.streamSequence) === pending.id;
    if (!isCompleted && !isCancelled && stored?.taskSequence !== pending.streamSequence) return true;
    // The node that stored the cancellation may not have reported it.
    if (isCancelled && !isCompleted) events.tell({ event: 'cancelled', ...subjectOf(pending) });
    await this.#finish(pending, isCompleted ? '+ACK' : '+TERM');
    return false;
  }

  /** Whether this node has completed the message recently. */
  isCompleted(streamSequence: number): boolean {
    return this.#completed.idAt(streamSequence) !== undefined;
  }

  /** Reports the start of an attempt. Stores the start of a suspect's attempt, so that another crash is counted. */
  async markRunning(pending: PendingDelivery): Promise<void> {
    const { note } = pending;
    this.#parts.events.tell({ event: 'started', ...subjectOf(pending), attempt: note.attempts + 1 });
    if (note.suspect) await this.#storeNote(pending, { ...note, running: true });
  }

  async complete(pending: PendingDelivery): Promise<void> {
    this.#parts.events.tell({ event: 'completed', ...subjectOf(pending) });
    await this.#finish(pending, '+ACK');
  }

  /** Naks a message, so that JetStream redelivers it at `dueAt`. Returns false if a newer delivery exists. */
  async postpone(
    pending: PendingDelivery,
    settlement: SettlementOf<'retry' | 'snooze'>,
    dueAt: number,
  ): Promise<boolean> {
    const { kind, reason } = settlement;
    const note = kind === 'retry' ? afterAttempt(pending.note, settlement) : pending.note;
    const { deliveries: lastSettledDelivery } = pending;
    // Skips the nak if a newer delivery exists, because JetStream would apply the nak to the newer delivery.
    if (!(await this.#storeNote(pending, { ...note, running: false, reason, dueAt, lastSettledDelivery })))
      return false;
    this.#parts.events.tell({ event: 'retrying', ...subjectOf(pending), attempts: note.attempts, reason, dueAt });
    await this.#nak(pending, dueAt - Date.now());
    return true;
  }

  /** Stores the dead letter before removing the message, so that the task is never lost. */
  async deadLetter(pending: PendingDelivery, settlement: SettlementOf<'discard'>): Promise<void> {
    const { letters, counts, events, cancellations } = this.#parts;
    const { id, body, sequence, streamSequence, acceptedAt } = pending;
    // Another node may have cancelled the task while this node was disconnected.
    if (await cancellations.has(id, streamSequence)) {
      events.tell({ event: 'cancelled', ...subjectOf(pending) });
      return this.#finish(pending, '+TERM');
    }
    const { reason, attempts, failure } = settlement;
    const failedAt = Date.now();
    const earlier = pending.note.history ?? [];
    // A message that is exhausted when delivered is discarded without an attempt, so its history stays unchanged.
    const history = attempts > pending.note.attempts ? withAttempt(earlier, failedAt, reason) : earlier;
    const failed = { reason, attempts, permanent: failure === 'permanent', history, acceptedAt, failedAt };
    const letter: DeadLetter = { id, body, sequence, ...failed };
    const stored = await letters.add(letter, streamSequence);
    counts.deadLettered(stored.seq);
    events.tell({ event: 'failed', ...subjectOf(pending), attempts, reason });
    await this.#finish(pending, '+TERM');
  }

  async cancel(pending: PendingDelivery): Promise<void> {
    await this.#recordCancellation(pending, pending.streamSequence);
    await this.#finish(pending, '+TERM').catch(() => {});
  }

  /** Cancels a message that no node has, by deleting it from the task stream. */
  async withdraw(id: string, { seq, data }: StoredMsg): Promise<void> {
    const { tasks, notes, counts } = this.#parts;
    if (await this.#recordCancellation({ id, action: actionStart(textOf(data)) }, seq))
      counts.settled(seq, data.length);
    // A failed deletion can be ignored, because `resolve` finds the cancellation when the message is delivered.
    await Promise.all([tasks.remove(seq), notes.purge(token(id))]).catch(() => {});
  }

  /** Reverts `markRunning` for a delivery that was released before its attempt started. */
  async unmarkRunning(pending: PendingDelivery): Promise<void> {
    if (pending.note.running) await this.#storeNote(pending, { ...pending.note, running: false });
  }

  /** Returns the message to JetStream for immediate redelivery to any node. Does not count an attempt. */
  async requeue(pending: PendingDelivery): Promise<void> {
    const note = { ...pending.note, running: false, lastSettledDelivery: pending.deliveries };
    if (await this.#storeNote(pending, note)) await this.#nak(pending, 0);
  }

  /** Stores, counts and reports a cancellation. Returns false if the cancellation was already stored. */
  async #recordCancellation(task: Pick<PendingDelivery, 'id' | 'action'>, streamSequence: number): Promise<boolean> {
    const { cancellations, counts, events } = this.#parts;
    const { seq, duplicate } = await cancellations.add(task.id, streamSequence);
    counts.cancelled(seq);
    // Reports an already stored cancellation too, because the node that stored it may have failed to report it.
    events.tell({ event: 'cancelled', ...subjectOf(task) });
    return !duplicate;
  }

  /** Acknowledges a message (`+TERM` if dead-lettered or cancelled) and removes its delivery state. */
  async #finish(pending: PendingDelivery, ack: '+ACK' | '+TERM'): Promise<void> {
    const { id, streamSequence, bytes } = pending;
    const { counts, notes } = this.#parts;
    counts.settled(streamSequence, bytes);
    if (ack === '+ACK') this.#completed.add(streamSequence, id);
    await (ack === '+ACK' ? this.#acks.send(pending.reply) : this.#send(pending, ack));
    // After a failed removal, the delivery state is evicted when its stream is full.
    if (pending.noteRevision > 0) await notes.purge(token(id)).catch(() => {});
  }

  #nak(pending: PendingDelivery, delayMs: number): Promise<void> {
    return this.#send(pending, delayMs > 0 ? `-NAK {"delay":${delayMs * 1_000_000}}` : '-NAK');
  }

  /** @throws {Error} if JetStream does not confirm the ack in time */
  async #send({ reply }: PendingDelivery, ack: string): Promise<void> {
    await this.#parts.link.connection.request(reply, ack, { timeout: REQUEST_TIMEOUT_MS });
  }

  /** Returns false if a newer delivery of the message has already stored its own state. */
  async #storeNote(pending: PendingDelivery, note: DeliveryState): Promise<boolean> {
    const { notes } = this.#parts;
    pending.note = { ...note, streamSequence: pending.streamSequence };
    for (;;) {
      const revision = await notes.put(token(pending.id), pending.note, pending.noteRevision);
      if (revision !== undefined) {
        pending.noteRevision = revision;
        return true;
      }
      const found = await notes.get(token(pending.id));
      // Retries with the revision of the stored state, unless a newer delivery stored that state.
      const isNewer = found !== undefined && found.value.lastSettledDelivery >= pending.deliveries;
      if (isNewer && !isStale(found.value, pending)) return false;
      pending.noteRevision = found?.revision ?? 0;
    }
  }
}

/** Whether the delivery state was stored before the task's last redrive. */
function isStale(note: DeliveryState, { streamSequence }: PendingDelivery): boolean {
  return note.streamSequence < streamSequence;
}

function afterAttempt(note: DeliveryState, { failure, reason }: SettlementOf<'retry'>): DeliveryState {
  const crashes = note.crashes + (failure === 'crash' ? 1 : 0);
  const history = withAttempt(note.history ?? [], Date.now(), reason);
  return { ...note, attempts: note.attempts + 1, crashes, suspect: false, history };
}
