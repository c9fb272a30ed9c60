import type { DeadLetter, Verdict } from '../driver.ts';
import type { NatsCounts } from './counts.ts';
import type { NatsEvents } from './events.ts';
import type { Acknowledgements, Holding } from './holding.ts';
import type { NatsLetters } from './letters.ts';
import { type Note, noNote, standing } from './notes.ts';
import { token } from './streams.ts';
import { Conflict, type NatsValues } from './values.ts';

/** Messages whose acknowledgement was lost, so that they are acknowledged when they come again. */
const MOST_UNHEARD = 10_000;

export interface SettlingParts {
  acknowledgements: Acknowledgements;
  counts: NatsCounts;
  events: NatsEvents;
  letters: NatsLetters;
  notes: NatsValues<Note>;
}

/** What becomes of a message, told to JetStream. What is to be known of it is always stored before the message is let go. */
export class NatsSettling {
  readonly #parts: SettlingParts;
  /** Places in the stream of messages that are done here, though JetStream did not hear of it. */
  readonly #unheard = new Set<number>();

  constructor(parts: SettlingParts) {
    this.#parts = parts;
  }

  /**
   * Finds out what earlier deliveries of a message have left, for one that is not the first.
   *
   * @returns whether it is still to be worked off: it may be done, or given up, and only the last word was lost
   */
  async recall(held: Holding): Promise<boolean> {
    const { notes, letters, counts, acknowledgements } = this.#parts;
    const [note, stored] = await Promise.all([notes.get(token(held.id)), letters.get(held.id)]);
    held.noteRevision = note?.revision ?? 0;
    held.note = standing(note === undefined || isStale(note.value, held) ? noNote : note.value, held.deliveries);
    const done = this.#unheard.has(held.place);
    if (!done && stored?.taskPlace !== held.place) return true;
    counts.settled(held.place, held.bytes);
    if (done) await this.#acknowledge(held);
    else await acknowledgements.term(held);
    await this.#forget(held);
    return false;
  }

  /** An attempt begins. Where it may end with the process, that is written down first. */
  async begin(held: Holding): Promise<void> {
    const { id, note } = held;
    this.#parts.events.tell({ event: 'started', id, attempt: note.attempts + 1 });
    if (note.cut) await this.#note(held, { ...note, begun: true });
  }

  async complete(held: Holding): Promise<void> {
    this.#parts.counts.settled(held.place, held.bytes);
    this.#parts.events.tell({ event: 'completed', id: held.id });
    await this.#acknowledge(held);
    await this.#forget(held);
  }

  async retry(held: Holding, verdict: Extract<Verdict, { verdict: 'retry' }>, dueAt: number): Promise<void> {
    const { reason, crashed, tried = true } = verdict;
    const attempts = held.note.attempts + (tried ? 1 : 0);
    const crashes = held.note.crashes + (crashed ? 1 : 0);
    const note = { ...noNote, attempts, crashes, reason, dueAt, explained: held.deliveries };
    // JetStream would apply the nak to the newer delivery.
    if (!(await this.#note(held, note))) return;
    this.#parts.events.tell({ event: 'retrying', id: held.id, attempts, reason, dueAt });
    await this.#parts.acknowledgements.nak(held, Math.max(0, dueAt - Date.now()));
  }

  /** The letter comes first: a message whose end was lost after it is found to have one when it is delivered again. */
  async bury(held: Holding, { reason, tried }: Extract<Verdict, { verdict: 'dead' }>): Promise<void> {
    const { letters, counts, events, acknowledgements } = this.#parts;
    const { id, body, seq, place, bytes, acceptedAt: firstAt } = held;
    const attempts = held.note.attempts + (tried === false ? 0 : 1);
    const letter: DeadLetter = { id, body, seq, reason, attempts, firstAt, lastAt: Date.now() };
    const stored = await letters.store(letter, place);
    counts.buried(stored.seq);
    counts.settled(place, bytes);
    events.tell({ event: 'failed', id, attempts, reason });
    await acknowledgements.term(held);
    await this.#forget(held);
  }

  /** The attempt did not take place, and the message stays with this node. */
  async unbegin(held: Holding): Promise<void> {
    if (held.note.begun) await this.#note(held, { ...held.note, begun: false });
  }

  /** The message goes back to all nodes, as if this one had never had it. */
  async giveBack(held: Holding): Promise<void> {
    const note = { ...held.note, begun: false, explained: held.deliveries };
    if (await this.#note(held, note)) await this.#parts.acknowledgements.nak(held, 0);
  }

  async #acknowledge(held: Holding): Promise<void> {
    this.#unheard.add(held.place);
    for (const place of this.#unheard) {
      if (this.#unheard.size <= MOST_UNHEARD) break;
      this.#unheard.delete(place);
    }
    await this.#parts.acknowledgements.ack(held);
    this.#unheard.delete(held.place);
  }

  /** @returns false if a newer delivery, which owns the message, has stored a note */
  async #note(held: Holding, note: Note): Promise<boolean> {
    const { notes } = this.#parts;
    held.note = { ...note, place: held.place };
    for (;;) {
      try {
        held.noteRevision = await notes.put(token(held.id), held.note, held.noteRevision);
        return true;
      } catch (error) {
        if (!(error instanceof Conflict)) throw error;
        const found = await notes.get(token(held.id));
        if (found !== undefined && !isStale(found.value, held)) return false;
        held.noteRevision = found?.revision ?? 0;
      }
    }
  }

  /** A note that is left behind goes in the end, when newer ones need its place. */
  async #forget(held: Holding): Promise<void> {
    if (held.noteRevision > 0) await this.#parts.notes.remove(token(held.id)).catch(() => {});
  }
}

/** Whether the note is about an earlier message of the same task. */
function isStale(note: Note, { place }: Holding): boolean {
  return note.place < place;
}
