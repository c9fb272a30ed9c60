/** Outcome of a run of a task. */
export type Outcome =
  /** The row is stored, or the handler has acknowledged the task itself. */
  | { ended: 'returned' }
  | { ended: 'raised'; reason: string; permanent: boolean }
  /** The handler returned, but no rows can be stored at present. */
  | { ended: 'unstored'; reason: string }
  /** The task killed its thread. */
  | { ended: 'crashed'; reason: string }
  /** The run was ended by something other than the task. */
  | { ended: 'interrupted'; reason: string };
