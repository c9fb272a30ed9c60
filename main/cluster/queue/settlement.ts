import type { DeadLetter, SettlementOf } from '../../tasks/queue/queue.ts';
import type { NatsLink } from '../nats-link.ts';
import type { NatsCounts } from './counts.ts';
import type { DeadLetterStore } from './dead-letter-store.ts';
import { type DeliveryState, initialDeliveryState, resolveDeliveryState } from './delivery-state.ts';
import type { NatsEvents } from './events.ts';
import { type PendingDelivery, REQUEST_TIMEOUT_MS } from './pending-delivery.ts';
import { Conflict, type RevisionedStore } from './revisioned-store.ts';
import { token } from './streams.ts';

/** Maximum number of unconfirmed acks that are remembered. Past it, the oldest one is forgotten. */
const MAX_UNCONFIRMED_ACKS = 10_000;

export interface SettlerParts {
  link: NatsLink;
  counts: NatsCounts;
  events: NatsEvents;
  letters: DeadLetterStore;
  notes: RevisionedStore<DeliveryState>;
}

/** Settles messages with JetStream. The state of a message is always stored before the message is acknowledged. */
export class NatsSettler {
  readonly #parts: SettlerParts;
  /** Stream sequences of completed messages whose ack is unconfirmed. If such a message is redelivered, it is acked again. */
  readonly #unconfirmedAcks = new Set<number>();

  constructor(parts: SettlerParts) {
    this.#parts = parts;
  }

  /**
   * Sets the state of a redelivered message from the stored note (the state after its earlier deliveries).
   *
   * @returns false if the message is already completed or dead-lettered, and only its ack was lost
   */
  async resolve(pending: PendingDelivery): Promise<boolean> {
    const { notes, letters, counts } = this.#parts;
    const [note, stored] = await Promise.all([notes.get(token(pending.id)), letters.get(pending.id)]);
    pending.noteRevision = note?.revision ?? 0;
    const earlier = note === undefined || isStale(note.value, pending) ? initialDeliveryState : note.value;
    pending.note = resolveDeliveryState(earlier, pending.deliveries);
    const isCompleted = this.#unconfirmedAcks.has(pending.streamSequence);
    if (!isCompleted && stored?.taskSequence !== pending.streamSequence) return true;
    counts.settled(pending.streamSequence, pending.bytes);
    if (isCompleted) await this.#ack(pending);
    else await this.#send(pending, '+TERM');
    await this.#removeNote(pending);
    return false;
  }

  /** Reports the start of an attempt. For a suspect (its process died while it was in flight), the start is also stored. */
  async markRunning(pending: PendingDelivery): Promise<void> {
    const { id, note } = pending;
    this.#parts.events.tell({ event: 'started', id, attempt: note.attempts + 1 });
    if (note.suspect) await this.#storeNote(pending, { ...note, running: true });
  }

  async complete(pending: PendingDelivery): Promise<void> {
    this.#parts.counts.settled(pending.streamSequence, pending.bytes);
    this.#parts.events.tell({ event: 'completed', id: pending.id });
    await this.#ack(pending);
    await this.#removeNote(pending);
  }

  /** Returns the message for redelivery at `dueAt`, to any node. A retry clears `suspect`, because an attempt has ended. */
  async postpone(pending: PendingDelivery, settlement: SettlementOf<'retry' | 'snooze'>, dueAt: number): Promise<void> {
    const { kind, reason } = settlement;
    const note = kind === 'retry' ? afterAttempt(pending.note, settlement.failure) : pending.note;
    const { id, deliveries: lastSettledDelivery } = pending;
    // Sends no nak if a newer delivery exists, because JetStream would apply the nak to that delivery.
    if (!(await this.#storeNote(pending, { ...note, running: false, reason, dueAt, lastSettledDelivery }))) return;
    this.#parts.events.tell({ event: 'retrying', id, attempts: note.attempts, reason, dueAt });
    await this.#nak(pending, dueAt - Date.now());
  }

  /** Stores the dead letter before the ack. If the ack is lost, `resolve` finds the dead letter when the message is redelivered. */
  async deadLetter(pending: PendingDelivery, { reason, attempts }: SettlementOf<'discard'>): Promise<void> {
    const { letters, counts, events } = this.#parts;
    const { id, body, sequence, streamSequence, bytes, acceptedAt } = pending;
    const letter: DeadLetter = { id, body, sequence, reason, attempts, acceptedAt, failedAt: Date.now() };
    const stored = await letters.store(letter, streamSequence);
    counts.deadLettered(stored.seq);
    counts.settled(streamSequence, bytes);
    events.tell({ event: 'failed', id, attempts, reason });
    await this.#send(pending, '+TERM');
    await this.#removeNote(pending);
  }

  /** Reverts `markRunning` of a suspect that was released before its attempt started. This node keeps the message. */
  async unmarkRunning(pending: PendingDelivery): Promise<void> {
    if (pending.note.running) await this.#storeNote(pending, { ...pending.note, running: false });
  }

  /** Returns the message for redelivery to any node at once, without counting an attempt. */
  async requeue(pending: PendingDelivery): Promise<void> {
    const note = { ...pending.note, running: false, lastSettledDelivery: pending.deliveries };
    if (await this.#storeNote(pending, note)) await this.#nak(pending, 0);
  }

  async #ack(pending: PendingDelivery): Promise<void> {
    this.#unconfirmedAcks.add(pending.streamSequence);
    const [oldest] = this.#unconfirmedAcks;
    if (this.#unconfirmedAcks.size > MAX_UNCONFIRMED_ACKS) this.#unconfirmedAcks.delete(oldest as number);
    await this.#send(pending, '+ACK');
    this.#unconfirmedAcks.delete(pending.streamSequence);
  }

  /** Sends a nak, which requests a redelivery after `delayMs`. */
  #nak(pending: PendingDelivery, delayMs: number): Promise<void> {
    return this.#send(pending, delayMs > 0 ? `-NAK {"delay":${delayMs * 1_000_000}}` : '-NAK');
  }

  /** Sends an ack, nak or term message. @throws {Error} if JetStream does not confirm it in time */
  async #send({ reply }: PendingDelivery, ack: string): Promise<void> {
    await this.#parts.link.connection.request(reply, ack, { timeout: REQUEST_TIMEOUT_MS });
  }

  /** Stores the note (the task's state). @returns false if a newer delivery of the message has already stored a note */
  async #storeNote(pending: PendingDelivery, note: DeliveryState): Promise<boolean> {
    const { notes } = this.#parts;
    pending.note = { ...note, streamSequence: pending.streamSequence };
    for (;;) {
      try {
        pending.noteRevision = await notes.put(token(pending.id), pending.note, pending.noteRevision);
        return true;
      } catch (error) {
        if (!(error instanceof Conflict)) throw error;
        const found = await notes.get(token(pending.id));
        // Replaces the note of an earlier delivery, or of an unconfirmed write of this one, but not that of a newer delivery.
        const isNewer = found !== undefined && found.value.lastSettledDelivery >= pending.deliveries;
        if (isNewer && !isStale(found.value, pending)) return false;
        pending.noteRevision = found?.revision ?? 0;
      }
    }
  }

  /** Removes the stored note. If that fails, the note stays until the stream reaches its bound and evicts the note. */
  async #removeNote(pending: PendingDelivery): Promise<void> {
    if (pending.noteRevision > 0) await this.#parts.notes.remove(token(pending.id)).catch(() => {});
  }
}

/** Whether the note belongs to an earlier message of the same task, which was stored before a redrive. */
function isStale(note: DeliveryState, { streamSequence }: PendingDelivery): boolean {
  return note.streamSequence < streamSequence;
}

function afterAttempt(note: DeliveryState, failure: 'transient' | 'crash'): DeliveryState {
  const crashes = note.crashes + (failure === 'crash' ? 1 : 0);
  return { ...note, attempts: note.attempts + 1, crashes, suspect: false };
}
