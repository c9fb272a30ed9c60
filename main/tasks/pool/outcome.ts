/** How a run of a task ended. */
export type Outcome =
  /** The row is stored, or the handler has acknowledged the task itself. */
  | { ended: 'returned' }
  | { ended: 'raised'; reason: string; permanent: boolean }
  /** The handler returned, but no row can be stored at present, of this task or of any other. */
  | { ended: 'unstored'; reason: string }
  /** The task's thread died, because of this task. */
  | { ended: 'crashed'; reason: string }
  /** The task was not processed to its end, because of something else. */
  | { ended: 'interrupted'; reason: string };
