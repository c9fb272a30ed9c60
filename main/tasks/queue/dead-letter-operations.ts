import type { DeadLetter } from '../../../db/sqlite/queued-messages.ts';

/** The part of a queue that lists, redrives and purges dead letters. */
export interface DeadLetterOperations {
  /**
   * Returns the newest dead letters, newest first, without their bodies.
   *
   * @throws {UnknownDeadLetter} if there is no dead letter with the id `filter.before`
   */
  newestDeadLetters(limit: number, filter?: DeadLetterFilter): Promise<readonly ListedDeadLetter[]>;
  /** Counts the dead letters by their reasons. */
  deadLetterReasons(): Promise<DeadLetterReasons>;
  /**
   * Requeues a dead letter, and resets its attempts and history.
   *
   * @returns whether the dead letter existed
   * @throws {QueueFull} if a bound is reached; the dead letter is then kept
   */
  redrive(id: string): Promise<boolean>;
  /** Deletes a dead letter. @returns whether the dead letter existed */
  purge(id: string): Promise<boolean>;
  /**
   * Requeues dead letters, oldest first, until a bound of the queue is reached. The others are kept.
   *
   * @throws {Error} if a redrive cannot be recorded; the dead letters redriven before the failure stay redriven
   */
  redriveAll(selection: DeadLetterSelection): Promise<BulkResult>;
  /**
   * Deletes dead letters.
   *
   * @throws {Error} if a deletion cannot be recorded; the dead letters deleted before the failure stay deleted
   */
  purgeAll(selection: DeadLetterSelection): Promise<BulkResult>;
}

/** Filter for a list of dead letters. `before` is the id of a dead letter: only older ones match. */
export interface DeadLetterFilter {
  before?: string | undefined;
  reason?: string | undefined;
}

/** Dead letters to redrive or purge. */
export type DeadLetterSelection = { ids: readonly string[] } | { reason: string } | { all: true };

export interface BulkResult {
  /** Number of dead letters that were redriven or purged. */
  count: number;
  /** Number of selected dead letters that were kept, because the queue reached a bound. */
  remaining: number;
}

/** Dead letters with the same reason. */
export interface ReasonCount {
  /** The reason, or null for all reasons other than the {@link MAX_REASONS} most frequent ones. */
  reason: string | null;
  count: number;
  /** Whether all of these dead letters failed with a permanent error. */
  permanent: boolean;
}

/** Reasons of dead letters, most frequent first. `total` is the number of all dead letters. */
export interface DeadLetterReasons {
  reasons: ReasonCount[];
  total: number;
}

/** A dead letter in a listing. Its contents are read only when needed. */
export interface ListedDeadLetter {
  /** Approximate size of the dead letter in bytes. */
  bytes: number;
  /** Reads the dead letter. Returns undefined if it no longer exists. */
  read(): Promise<DeadLetter | undefined>;
}

/** Thrown if a listing should start after a dead letter that does not exist. */
export class UnknownDeadLetter extends Error {
  override name = 'UnknownDeadLetter';
}

/** Maximum number of reasons that are counted separately. All other reasons share one count. */
const MAX_REASONS = 100;

/** Sorts counts by frequency, and adds up those beyond the most frequent {@link MAX_REASONS}. */
export function mostFrequent(counts: readonly ReasonCount[]): DeadLetterReasons {
  const sorted = counts.toSorted((one, other) => other.count - one.count);
  const rest = sorted.splice(MAX_REASONS);
  const sum = (of: readonly ReasonCount[]) => of.reduce((total, { count }) => total + count, 0);
  const others = { reason: null, count: sum(rest), permanent: rest.every(({ permanent }) => permanent) };
  return { reasons: rest.length === 0 ? sorted : [...sorted, others], total: sum(sorted) + others.count };
}
