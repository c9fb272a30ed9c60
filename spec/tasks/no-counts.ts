import type { LiveCounts } from '../../main/tasks/queue.ts';

/** Counts of a queue that has accepted nothing. */
export const NO_COUNTS: LiveCounts = {
  accepted: 0,
  completed: 0,
  retried: 0,
  failed: 0,
  dead: 0,
  dropped: 0,
  cancelled: 0,
  waiting: 0,
  limited: 0,
  scheduled: 0,
  retrying: 0,
  inFlight: 0,
  bytes: 0,
  oldest: undefined,
  evicted: 0,
  running: 0,
  refused: 0,
};
