const NONE = {
  accepted: 0,
  completed: 0,
  retried: 0,
  failed: 0,
  cancelled: 0,
  /** Dead letters that were evicted or purged. */
  dropped: 0,
  evicted: 0,
  /** Messages taken, without callbacks. */
  taken: 0,
  waiting: 0,
  limited: 0,
  scheduled: 0,
  retrying: 0,
  inFlight: 0,
  /** Size of the messages that are no dead letters. */
  bytes: 0,
  dead: 0,
  deadBytes: 0,
  keys: 0,
};

/**
 * Counts of the queue, so that no request counts rows. Read once at the start, then changed in the transactions that
 * change the tables.
 */
export type Counters = typeof NONE;

/** Returns the counts of a queue with these messages, of which none is running. */
export function countersOf(totals: readonly { state: string; count: number; bytes: number }[], keys: number): Counters {
  const counters = { ...NONE, keys };
  for (const { state, count, bytes } of totals) {
    counters.accepted += count;
    if (state === 'failed') Object.assign(counters, { dead: count, deadBytes: bytes });
    else {
      counters[state as 'waiting' | 'limited' | 'scheduled' | 'retrying'] = count;
      counters.bytes += bytes;
    }
  }
  return counters;
}
