/** Limits on the number and age of rows in table `tasks`. A value of 0 means no limit. */
export interface RetentionLimits {
  /** Number of newest rows to keep. */
  rows: number;
  /** Number of days to keep a row after its task was completed. */
  days: number;
}

/** Maximum number of rows deleted in one transaction, which then takes only a few milliseconds. */
export const MAX_STEP_ROWS = 200;
/** Maximum total size of the rows deleted in one transaction. A larger row is deleted alone. */
export const MAX_STEP_BYTES = 4 * 1024 * 1024;

export const SECONDS_PER_DAY = 86_400;
