/** Limits on stored rows. A value of 0 means no limit. */
export interface RetentionLimits {
  /** Number of newest rows to keep. */
  rows: number;
  /** Days after completion for which a row is kept. */
  days: number;
}

/** Bound on the rows that a step deletes, so that a step takes a few milliseconds. */
export const STEP_ROWS = 200;
/** Bound on the bytes that a step deletes, unless its first row alone has more. */
export const STEP_BYTES = 4 * 1024 * 1024;

export const SECONDS_A_DAY = 86_400;
