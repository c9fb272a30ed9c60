import type { Awaitable } from '../awaitable.ts';
import type { Checks } from '../readiness-check.ts';
import type { TasksBackend } from '../tasks/processing.ts';
import type { TickerBackend } from '../ticker/service.ts';

/** Storage for state that outlives a request: local files and memory, or NATS and PostgreSQL servers. */
export interface Backend extends TickerBackend, TasksBackend {
  checks: Checks;
  close(): Awaitable<void>;
}
