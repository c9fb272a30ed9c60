import type { TaskOutcome } from '../../../workers/messages.ts';
import { Interrupted } from './task-threads.ts';
import type { LastSeen } from './task-timeout.ts';

export type BatchOutcome =
  | TaskOutcome
  /** The task killed its thread or exceeded its time limit. */
  | { ended: 'crashed'; reason: string }
  /** The thread died or was stopped. `suspect` is true if the task may have killed the thread. */
  | { ended: 'interrupted'; reason: string; suspect: boolean };

/**
 * Returns the outcomes of a batch whose thread has died: `crashed` for the task that was running, `interrupted` for all
 * other tasks. If the thread was storing rows, all tasks are suspects, but a task alone in its batch is `crashed`.
 *
 * @param size original number of tasks in the batch
 * @param kept number of tasks without the tasks that were reclaimed from the thread
 */
export function blame(error: Error, last: LastSeen, size: number, kept: number): BatchOutcome[] {
  const isBlameless = error instanceof Interrupted || last.index === undefined;
  const reason = last.exceededMs === undefined ? error.message : `took longer than ${last.exceededMs} ms`;
  const isStoring = last.index === size;
  return Array.from({ length: kept }, (_, index) => {
    if (!isBlameless && (index === last.index || (isStoring && kept === 1))) return { ended: 'crashed', reason };
    return { ended: 'interrupted', reason, suspect: !isBlameless && isStoring };
  });
}
