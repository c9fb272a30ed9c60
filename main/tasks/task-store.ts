import type { TaskLocation, TaskRecord, TaskSummary } from '../../db/sqlite/tasks.ts';
import type { TaskFilter, TaskPosition } from '../../db/task-filter.ts';
import type { Awaitable } from '../awaitable.ts';

/** Read access to stored task rows. */
export interface TaskStore {
  list(filter: TaskFilter): Awaitable<TaskRecord[]>;
  summarize(filter: TaskFilter): Awaitable<TaskSummary[]>;
  locate(filter: TaskFilter): Awaitable<TaskLocation[]>;
  position(id: string): Awaitable<TaskPosition | undefined>;
  find(id: string): Awaitable<TaskRecord | undefined>;
  findSummary(id: string): Awaitable<TaskSummary | undefined>;
}
