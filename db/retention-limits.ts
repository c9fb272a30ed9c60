/** Limits on the rows of table `tasks`. A value of 0 means no limit. */
export interface RetentionLimits {
  /** Number of newest rows to keep. */
  rows: number;
  /** Days after completion for which a row is kept. */
  days: number;
}

/** Maximum number of rows that one deletion step (a transaction) deletes, so that the step takes a few milliseconds. */
export const MAX_STEP_ROWS = 200;
/** Maximum number of bytes of the rows that one deletion step deletes, unless its first row alone is larger. */
export const MAX_STEP_BYTES = 4 * 1024 * 1024;

export const SECONDS_PER_DAY = 86_400;
