/** Filter for a listing. A row must match all fields that are set. */
export interface TaskFilter {
  status?: string | undefined;
  action?: string | undefined;
  /** Only rows that are older than the row at this position. */
  before?: TaskPosition | undefined;
}

/** A row's position in the order of a listing. */
export interface TaskPosition {
  /** Creation time in Unix seconds. */
  createdAt: number;
  /** Position in the order of arrival. Orders rows with the same creation time. */
  arrival: number;
}

/**
 * Whether a listing uses the index on actions instead of the index on statuses. With both filters, the index on
 * statuses is used unless the status is `completed`, because rows with any other status are rare.
 */
export function readsActions({ status, action }: TaskFilter): boolean {
  return action !== undefined && (status === undefined || status === 'completed');
}

/** Text between the action and the data in a payload. Cannot occur in an action, because JSON escapes quotes. */
const AFTER_ACTION = '","data":';

/**
 * Number of characters that the indexes on actions read from a payload, starting at the action. The migrations contain
 * the same number.
 */
const READ_LENGTH = 266;

/** An action as it appears in the JSON text of a payload, for queries that use the indexes on actions. */
export interface ActionText {
  /** The escaped action, followed by {@link AFTER_ACTION}. */
  withEnd: string;
  /** The part of `withEnd` that the indexes contain. */
  read: string;
  /** The escaped action, or undefined if the action is too long for the indexes. */
  short: string | undefined;
}

export function actionText(action: string): ActionText {
  const text = JSON.stringify(action).slice(1, -1);
  const withEnd = text + AFTER_ACTION;
  const read = [...withEnd.slice(0, 2 * READ_LENGTH)].slice(0, READ_LENGTH).join('');
  return { withEnd, read, short: read === withEnd ? text : undefined };
}
