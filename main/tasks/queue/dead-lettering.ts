import type { Backlog, Entry } from './backlog.ts';
import type { DeadLetters } from './dead-letters.ts';
import { subjectOf } from './event-subject.ts';
import type { DeadLetter, SettlementOf, TaskEvent } from './queue.ts';
import type { Journal } from './sqlite-journal.ts';

interface DeadLetteringOptions {
  backlog: Backlog;
  deadLetters: DeadLetters;
  /** Returns the journal that records every change, or undefined if the queue is in memory only. */
  journal: () => Pick<Journal, 'deadLetter' | 'redrive' | 'purge'> | undefined;
  onEvent: (event: TaskEvent) => void;
  /** Adds a redriven message to the backlog. */
  enqueue: (entry: Entry) => void;
}

/** Moves messages between the backlog and the dead letters of a local queue. */
export class DeadLettering {
  readonly #options: DeadLetteringOptions;
  /** Redrives that are being recorded, by task id. */
  readonly #redriving = new Map<string, Promise<void>>();

  constructor(options: DeadLetteringOptions) {
    this.#options = options;
  }

  /** Turns a message into a dead letter. Its delivery must have ended. */
  async discard(entry: Entry, { reason, attempts }: SettlementOf<'discard'>): Promise<void> {
    const { backlog, deadLetters, journal, onEvent } = this.#options;
    backlog.remove(entry);
    const { id, body, sequence, acceptedAt } = entry;
    const letter = { id, body, sequence, reason, attempts, acceptedAt, failedAt: Date.now() };
    const evicted = deadLetters.add(letter);
    onEvent({ event: 'failed', ...subjectOf(entry), attempts, reason });
    await Promise.all([journal()?.deadLetter(letter), ...evicted.map((old) => journal()?.purge(old))]);
  }

  /** Adds a dead letter that is already stored. */
  add(letter: DeadLetter): void {
    const { deadLetters, journal } = this.#options;
    for (const evicted of deadLetters.add(letter))
      void journal()
        ?.purge(evicted)
        .catch(() => {});
  }

  /** Puts a dead letter back into the queue; see `Queue.redrive`. */
  async redrive(id: string): Promise<boolean> {
    const letter = this.#options.deadLetters.get(id);
    if (letter === undefined) return false;
    const redriving = this.#redrive(letter).finally(() => this.#redriving.delete(id));
    this.#redriving.set(id, redriving);
    await redriving;
    return true;
  }

  /** Waits until the task's pending redrive, if any, is recorded or has failed. */
  async settled(id: string): Promise<void> {
    await this.#redriving.get(id)?.catch(() => {});
  }

  /** Deletes a dead letter. @returns whether the dead letter existed */
  async purge(id: string): Promise<boolean> {
    const { deadLetters, journal } = this.#options;
    const letter = deadLetters.get(id);
    if (letter === undefined) return false;
    deadLetters.drop(letter);
    await journal()?.purge(letter);
    return true;
  }

  async #redrive(letter: DeadLetter): Promise<void> {
    const { backlog, deadLetters, journal, enqueue } = this.#options;
    const entry = backlog.createEntry(letter, letter.sequence, letter.acceptedAt);
    const endRedrive = deadLetters.startRedrive(letter);
    try {
      await backlog.reserve(entry.bytes, journal()?.redrive(entry));
    } catch (error) {
      this.add(letter);
      throw error;
    } finally {
      endRedrive();
    }
    enqueue(entry);
  }
}
