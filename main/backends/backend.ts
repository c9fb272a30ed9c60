import type { Awaitable } from '../awaitable.ts';
import type { Checks } from '../readiness-check.ts';
import type { TasksBackend } from '../tasks/service.ts';
import type { TickerBackend } from '../ticker/service.ts';

/** Storage for all state that outlives a request: local files and memory, or cluster servers. */
export interface Backend extends TickerBackend, TasksBackend {
  /** Readiness checks of the databases and servers, by name. */
  checks: Checks;
  close(): Awaitable<void>;
}
