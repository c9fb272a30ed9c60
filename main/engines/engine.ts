import type { ApiKeyOwner } from '../../db/api-keys.ts';
import type { TaskLocation, TaskRecord } from '../../db/tasks.ts';
import type { Check } from '../admin/readiness.ts';
import type { Awaitable } from '../awaitable.ts';
import type { OpenQueue, TaskEvent } from '../tasks/queue/queue.ts';
import type { TickFeed } from '../ticker/tick-feed.ts';
import type { TokenStore } from '../ticker/token-store.ts';

/** Store of API keys. Methods throw like those of `ApiKeys` in `db`. */
export interface ApiKeyStore {
  findOwner(apiKey: string): Awaitable<ApiKeyOwner | undefined>;
  ensureDemoUser(now: number): Awaitable<{ apiKey: string; created: boolean }>;
}

/** Read access to the stored tasks. Methods throw like those of `Tasks` in `db`. */
export interface TaskStore {
  list(status?: string): Awaitable<TaskRecord[]>;
  locate(status?: string): Awaitable<TaskLocation[]>;
  find(id: string): Awaitable<TaskRecord | undefined>;
}

/** Storage of all state that outlives a request: local files and memory, or cluster servers. */
export interface Engine {
  apiKeys: ApiKeyStore;
  tasks: TaskStore;
  openTokenStore(): Awaitable<TokenStore>;
  /** @returns undefined if each node makes its own ticks */
  openTickFeed(): Awaitable<TickFeed | undefined>;
  /** @param onEvent called at every state change of a task */
  openQueue(onEvent: (event: TaskEvent) => void): Awaitable<OpenQueue>;
  /** Location of the `tasks` table, passed to the worker threads. */
  threadData: object;
  /** Starts to delete old rows, if a retention limit is set. @param writeLock write lock of the worker threads */
  startRetention(writeLock: SharedArrayBuffer): { stop(): Promise<void> } | undefined;
  /** Readiness checks of databases and servers. */
  checks: Readonly<Record<string, Check>>;
  close(): Awaitable<void>;
}
