/** Which rows a listing contains: those that match all fields that are present. */
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
  /** Number in the order of arrival, which breaks ties. */
  arrival: number;
}

/**
 * Whether a listing reads the index on actions, and not the one on statuses. If the filter has both, an action's rows are nearly all
 * `completed`, and rows with any other status are few, because this program does not write them.
 */
export function readsActions({ status, action }: TaskFilter): boolean {
  return action !== undefined && (status === undefined || status === 'completed');
}

/** Text between an action and the data in a payload. An action never contains it, because JSON escapes quotes in a string. */
const AFTER_ACTION = '","data":';

/** Number of characters, from the start of the action, that the indexes on actions read of a payload. The migrations contain it. */
const READ_LENGTH = 266;

/** An action in the form in which payloads contain it. */
export interface ActionText {
  /** The action as JSON text without its quotes, followed by the text after it. */
  withEnd: string;
  /** The part of `withEnd` that the indexes read. */
  read: string;
  /** The action if the indexes read it in full, or undefined if it is too long. */
  short: string | undefined;
}

export function actionText(action: string): ActionText {
  const text = JSON.stringify(action).slice(1, -1);
  const withEnd = text + AFTER_ACTION;
  const read = [...withEnd.slice(0, 2 * READ_LENGTH)].slice(0, READ_LENGTH).join('');
  return { withEnd, read, short: read === withEnd ? text : undefined };
}
