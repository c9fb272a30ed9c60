/** Limits on stored rows. A value of 0 means no limit. */
export interface RetentionLimits {
  /** Number of newest rows to keep. */
  rows: number;
  /** Days after completion for which a row is kept. */
  days: number;
}

/** Bound on the rows that a step deletes, so that a step takes a few milliseconds. */
export const MAX_STEP_ROWS = 200;
/** Bound on the bytes that a step deletes, unless its first row alone has more. */
export const MAX_STEP_BYTES = 4 * 1024 * 1024;

export const SECONDS_PER_DAY = 86_400;
