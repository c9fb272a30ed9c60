import type { AttemptHistory } from '../../../db/attempt-history.ts';
import type { DeadLetter } from '../../../db/sqlite/queued-messages.ts';
import type { TaskProgress } from '../../../workers/messages.ts';

/** State of an unfinished task. Times are milliseconds since the epoch. */
export type UnfinishedState =
  | { state: 'queued' }
  /** `startedAt` is when the attempt started, if known. `progress` is what the handler last reported in this attempt. */
  | { state: 'running'; attempt: number; startedAt?: number; progress?: TaskProgress }
  /** The last attempt failed because of `reason`. The next attempt is due at `dueAt`. */
  | { state: 'retrying'; attempts: number; reason: string; dueAt: number };

/** State of an unfinished or failed task. `body` is the message, accepted at `acceptedAt` in milliseconds since the epoch. */
export type Progress =
  | (UnfinishedState & { body: string; acceptedAt: number; history: AttemptHistory })
  | { state: 'failed'; letter: DeadLetter };

/** State by which unfinished tasks are listed. `running` includes tasks in flight that have not started yet. */
export type ListedState = UnfinishedState['state'];

/** An unfinished task in a list, with only the start of its message. */
export interface ListedTask {
  id: string;
  /** First characters of the action; see `actionStart`. */
  action: string | undefined;
  acceptedAt: number;
  /** First characters of the message. */
  payload: string;
  /** Size of the whole message in bytes. */
  payloadBytes: number;
  progress: UnfinishedState;
}

/** Unfinished tasks in one state. */
export interface TaskListing {
  tasks: ListedTask[];
  /** Number of all tasks in this state, as in `QueueCounts`. */
  total: number;
}
