import type { AttemptHistory } from '../../../db/attempt-history.ts';
import type { DeadLetter } from '../../../db/sqlite/queued-messages.ts';
import type { TaskProgress } from '../../../workers/messages.ts';

/** State of an unfinished task. Times are milliseconds since the epoch. */
export type UnfinishedState =
  | { state: 'queued' }
  /** `startedAt` is undefined if unknown, and `progress` if the handler has not reported any in the current attempt. */
  | { state: 'running'; attempt: number; startedAt?: number; progress?: TaskProgress }
  | { state: 'retrying'; attempts: number; reason: string; dueAt: number };

/** State of an unfinished or failed task. `acceptedAt` is in milliseconds since the epoch. */
export type Progress =
  | (UnfinishedState & { body: string; acceptedAt: number; history: AttemptHistory })
  | { state: 'failed'; letter: DeadLetter };

/** State of the tasks in a listing. `running` includes tasks in flight that have not started yet. */
export type ListedState = UnfinishedState['state'];

export interface ListedTask {
  id: string;
  /** First characters of the action's name. Undefined if the message has no action. */
  action: string | undefined;
  acceptedAt: number;
  /** First characters of the message's body. */
  payload: string;
  /** Size in bytes of the complete body, of which `payload` is only the start. */
  payloadBytes: number;
  progress: UnfinishedState;
}

export interface TaskListing {
  tasks: ListedTask[];
  /** Number of all tasks in the listed state, including tasks beyond the maximum length of a listing. */
  total: number;
}
