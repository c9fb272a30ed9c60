import type { DeadLetter } from '../../../db/sqlite/queued-messages.ts';

export interface DeadLetterOperations {
  /** Lists dead letters, newest first, without bodies. @throws {UnknownDeadLetter} if `filter.before` is unknown */
  newestDeadLetters(limit: number, filter?: DeadLetterFilter): Promise<readonly ListedDeadLetter[]>;
  deadLetterReasons(): Promise<DeadLetterReasons>;
  /** Requeues a dead letter and resets its attempts. Returns false if it does not exist. @throws {QueueFull} */
  redrive(id: string): Promise<boolean>;
  /** Deletes a dead letter. Returns false if the dead letter does not exist. */
  purge(id: string): Promise<boolean>;
  /** Requeues dead letters, oldest first, until the queue is full. Redrives before an error are not undone. */
  redriveAll(selection: DeadLetterSelection): Promise<BulkResult>;
  /** Deletes dead letters. Deletions before an error are not undone. */
  purgeAll(selection: DeadLetterSelection): Promise<BulkResult>;
}

/** Filter for dead letters. If `before` is the id of a dead letter, only older dead letters match. */
export interface DeadLetterFilter {
  before?: string | undefined;
  reason?: string | undefined;
}

export type DeadLetterSelection = { ids: readonly string[] } | { reason: string } | { all: true };

export interface BulkResult {
  /** Number of dead letters that were redriven or purged. */
  count: number;
  /** Number of selected dead letters that were kept because the queue reached a bound. */
  remaining: number;
}

export interface ReasonCount {
  /** Failure reason, or null for all reasons other than the 100 most frequent. */
  reason: string | null;
  count: number;
  /** Whether all dead letters with this reason failed with a permanent error. */
  permanent: boolean;
}

/** Failure reasons of dead letters, most frequent first. `total` is the number of all dead letters. */
export interface DeadLetterReasons {
  reasons: ReasonCount[];
  total: number;
}

export interface ListedDeadLetter {
  /** Approximate size of the dead letter in bytes. */
  bytes: number;
  /** Returns undefined if the dead letter no longer exists. */
  read(): Promise<DeadLetter | undefined>;
}

/** Thrown if a listing should start after a dead letter that does not exist. */
export class UnknownDeadLetter extends Error {
  override name = 'UnknownDeadLetter';
}

const MAX_REASONS = 100;

/** Sorts counts by frequency, and merges all counts beyond the 100 most frequent into one. */
export function mostFrequent(counts: readonly ReasonCount[]): DeadLetterReasons {
  const sorted = counts.toSorted((one, other) => other.count - one.count);
  const rest = sorted.splice(MAX_REASONS);
  const sum = (of: readonly ReasonCount[]) => of.reduce((total, { count }) => total + count, 0);
  const others = { reason: null, count: sum(rest), permanent: rest.every(({ permanent }) => permanent) };
  return { reasons: rest.length === 0 ? sorted : [...sorted, others], total: sum(sorted) + others.count };
}
