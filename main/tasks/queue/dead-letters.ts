import { setImmediate } from 'node:timers/promises';
import { sharedReason, withAttempt } from '../../../db/attempt-history.ts';
import { actionStart } from '../../../workers/parse-submission.ts';
import type { Backlog, Entry } from './backlog.ts';
import type {
  BulkResult,
  DeadLetterFilter,
  DeadLetterOperations,
  DeadLetterReasons,
  DeadLetterSelection,
  ListedDeadLetter,
} from './dead-letter-operations.ts';
import type { DeadLetterStore } from './dead-letter-store.ts';
import { subjectOf } from './event-subject.ts';
import { type DeadLetter, QueueFull, type SettlementOf, type TaskEvent } from './queue.ts';
import type { Journal } from './sqlite-journal.ts';
import { textMemoryBytes } from './text-memory.ts';

/** Limits on the dead letters (number, bytes) that a bulk redrive or purge handles per event loop turn. */
const SLICE = { maxLength: 1000, maxBytes: 1024 * 1024 };

interface DeadLettersOptions {
  backlog: Backlog;
  deadLetters: DeadLetterStore;
  /** Returns the journal that stores changes, or undefined if the queue is in memory only. */
  journal: () => Pick<Journal, 'deadLetter' | 'redrive' | 'purge' | 'purgeAll'> | undefined;
  onEvent: (event: TaskEvent) => void;
  enqueue: (entry: Entry) => void;
}

/** Moves messages between the backlog and the dead letters of a local queue. */
export class DeadLetters implements DeadLetterOperations {
  readonly #options: DeadLettersOptions;
  readonly #redriving = new Map<string, Promise<void>>();

  constructor(options: DeadLettersOptions) {
    this.#options = options;
  }

  /** Turns a message into a dead letter. Its delivery must have ended. */
  async discard(entry: Entry, { reason, attempts, failure }: SettlementOf<'discard'>): Promise<void> {
    const { backlog, deadLetters, journal, onEvent } = this.#options;
    backlog.remove(entry);
    const { id, body, sequence, acceptedAt } = entry;
    const failedAt = Date.now();
    // A message discarded without another attempt adds no attempt to its history.
    const history = attempts > entry.attempts ? withAttempt(entry.history, failedAt, reason) : entry.history;
    const failed = { reason: sharedReason(history, reason), permanent: failure === 'permanent', history, failedAt };
    const letter = { id, body, sequence, attempts, acceptedAt, ...failed };
    const evicted = deadLetters.add(letter);
    onEvent({ event: 'failed', ...subjectOf(entry), attempts, reason });
    for (const old of evicted) this.#notePurge(old);
    await Promise.all([journal()?.deadLetter(letter), ...evicted.map((old) => journal()?.purge(old))]);
  }

  /** Adds a dead letter that an earlier process has stored. */
  add(letter: DeadLetter): void {
    this.#purgeEvicted(this.#options.deadLetters.add(letter));
  }

  async newestDeadLetters(limit: number, filter?: DeadLetterFilter): Promise<readonly ListedDeadLetter[]> {
    return this.#options.deadLetters.newest(limit, filter);
  }

  async deadLetterReasons(): Promise<DeadLetterReasons> {
    return this.#options.deadLetters.reasons();
  }

  async redrive(id: string): Promise<boolean> {
    const letter = this.#options.deadLetters.get(id);
    if (letter === undefined) return false;
    await this.#redrive([letter], [this.#reserve(letter)]);
    return true;
  }

  async redriveAll(selection: DeadLetterSelection): Promise<BulkResult> {
    const { deadLetters } = this.#options;
    const selected = deadLetters.select(selection);
    const remaining = () => selected.filter((letter) => deadLetters.get(letter.id) === letter);
    let count = 0;
    for (let rest = selected; rest.length > 0; rest = remaining()) {
      const slice = firstSlice(rest);
      const entries = this.#reserveAll(slice);
      if (entries.length === 0) break;
      await this.#redrive(slice.slice(0, entries.length), entries);
      count += entries.length;
      await setImmediate();
    }
    return { count, remaining: remaining().length };
  }

  /** Waits until the task's pending redrive, if any, is stored or has failed. */
  async settled(id: string): Promise<void> {
    await this.#redriving.get(id)?.catch(() => {});
  }

  async purge(id: string): Promise<boolean> {
    const { deadLetters, journal } = this.#options;
    const letter = deadLetters.get(id);
    if (letter === undefined) return false;
    deadLetters.drop(letter);
    this.#notePurge(letter);
    await journal()?.purge(letter);
    return true;
  }

  async purgeAll(selection: DeadLetterSelection): Promise<BulkResult> {
    const { deadLetters, journal } = this.#options;
    const selected = deadLetters.select(selection);
    const remaining = () => selected.filter((letter) => deadLetters.get(letter.id) === letter);
    let count = 0;
    for (let rest = selected; rest.length > 0; rest = remaining()) {
      const slice = firstSlice(rest);
      for (const letter of slice) deadLetters.startRemoval(letter, 'purge');
      try {
        await journal()?.purgeAll(slice);
      } catch (error) {
        this.#keep(slice);
        throw error;
      }
      for (const letter of slice) deadLetters.finishRemoval(letter);
      for (const letter of slice) this.#notePurge(letter);
      count += slice.length;
      await setImmediate();
    }
    return { count, remaining: remaining().length };
  }

  #reserve(letter: DeadLetter): Entry {
    const { backlog } = this.#options;
    const entry = backlog.createEntry(letter, letter.sequence, letter.acceptedAt);
    backlog.reserve(entry);
    return entry;
  }

  #reserveAll(letters: readonly DeadLetter[]): Entry[] {
    const entries: Entry[] = [];
    try {
      for (const letter of letters) entries.push(this.#reserve(letter));
    } catch (error) {
      if (!(error instanceof QueueFull)) throw error;
    }
    return entries;
  }

  async #redrive(letters: readonly DeadLetter[], entries: readonly Entry[]): Promise<void> {
    for (const letter of letters) this.#options.deadLetters.startRemoval(letter, 'redrive');
    const redriving = this.#recordRedrive(letters, entries);
    for (const { id } of letters) this.#redriving.set(id, redriving);
    await redriving;
  }

  async #recordRedrive(letters: readonly DeadLetter[], entries: readonly Entry[]): Promise<void> {
    const { backlog, deadLetters, journal, enqueue } = this.#options;
    try {
      await journal()?.redrive(entries);
    } catch (error) {
      this.#keep(letters);
      throw error;
    } finally {
      for (const entry of entries) backlog.unreserve(entry);
      for (const { id } of letters) this.#redriving.delete(id);
    }
    // No `await` between these loops, because `find` would miss a message already removed but not yet enqueued.
    for (const letter of letters) deadLetters.finishRemoval(letter);
    for (const entry of entries) enqueue(entry);
  }

  #keep(letters: readonly DeadLetter[]): void {
    for (const letter of letters) this.#purgeEvicted(this.#options.deadLetters.undoRemoval(letter));
  }

  #notePurge({ id, body }: DeadLetter): void {
    this.#options.onEvent({ event: 'purged', ...subjectOf({ id, action: actionStart(body) }) });
  }

  #purgeEvicted(evicted: readonly DeadLetter[]): void {
    const { journal } = this.#options;
    for (const letter of evicted) this.#notePurge(letter);
    for (const letter of evicted)
      void journal()
        ?.purge(letter)
        .catch(() => {});
  }
}

/** Returns the first dead letters that fit into {@link SLICE}, but at least one. */
function firstSlice(letters: readonly DeadLetter[]): DeadLetter[] {
  let bytes = 0;
  const end = letters.findIndex((letter, index) => {
    bytes += textMemoryBytes(letter);
    return index === SLICE.maxLength || (index > 0 && bytes > SLICE.maxBytes);
  });
  return letters.slice(0, end === -1 ? letters.length : end);
}
