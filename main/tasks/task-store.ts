import type { TaskLocation, TaskRecord } from '../../db/sqlite/tasks.ts';
import type { Awaitable } from '../awaitable.ts';

/** Read access to the rows of tasks. The methods throw the same errors as `Tasks` in `db`. */
export interface TaskStore {
  list(status?: string): Awaitable<TaskRecord[]>;
  locate(status?: string): Awaitable<TaskLocation[]>;
  find(id: string): Awaitable<TaskRecord | undefined>;
}
