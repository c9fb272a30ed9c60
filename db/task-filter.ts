/** Filter for a listing. A row must match all fields that are set. */
export interface TaskFilter {
  status?: string | undefined;
  action?: string | undefined;
  /** Position of a row. Only older rows match. */
  before?: TaskPosition | undefined;
}

export interface TaskPosition {
  /** Creation time in Unix seconds. */
  createdAt: number;
  /** Position in the order of arrival, which orders rows with the same creation time. */
  arrival: number;
}

/**
 * Whether a listing uses the index on actions. For a status other than `completed`, the index on statuses is faster,
 * because few rows have such a status.
 */
export function readsActions({ status, action }: TaskFilter): boolean {
  return action !== undefined && (status === undefined || status === 'completed');
}

/** Text that follows the action in a payload. No action contains it, because JSON escapes quotes. */
const AFTER_ACTION = '","data":';

/** Number of characters of a payload that the indexes on actions read. Must equal the number in the migrations. */
const READ_LENGTH = 266;

/** JSON-escaped forms of an action, with which queries search the indexes on actions. */
export interface ActionText {
  /** The JSON-escaped action, followed by {@link AFTER_ACTION}. */
  withEnd: string;
  /** The first {@link READ_LENGTH} characters of `withEnd`. */
  read: string;
  /** The JSON-escaped action. Undefined if `withEnd` is longer than {@link READ_LENGTH} characters. */
  short: string | undefined;
}

export function actionText(action: string): ActionText {
  const text = JSON.stringify(action).slice(1, -1);
  const withEnd = text + AFTER_ACTION;
  const read = [...withEnd.slice(0, 2 * READ_LENGTH)].slice(0, READ_LENGTH).join('');
  return { withEnd, read, short: read === withEnd ? text : undefined };
}
