/** Filter for a listing. A row must match all fields that are set. */
export interface TaskFilter {
  status?: string | undefined;
  /** Must be {@link isFilterable}. */
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

/** Maximum number of characters of a filter's {@link actionText}: the indexes on actions contain these in full. */
export const MAX_ACTION_LENGTH = 256;

/** Returns an action as it appears in a payload: escaped as JSON, without the quotes. */
export function actionText(action: string): string {
  return JSON.stringify(action).slice(1, -1);
}

/** Whether an action is short enough for a {@link TaskFilter}. */
export function isFilterable(action: string): boolean {
  return [...actionText(action)].length <= MAX_ACTION_LENGTH;
}
