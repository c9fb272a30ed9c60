/** What is kept; 0 stands for all. */
export interface RetentionLimits {
  rows: number;
  days: number;
}

/** Rows that a step deletes at most, and bytes, of which one row may have more: some milliseconds. */
export const STEP_ROWS = 200;
export const STEP_BYTES = 4 * 1024 * 1024;

export const SECONDS_A_DAY = 86_400;
