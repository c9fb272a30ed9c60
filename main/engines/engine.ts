import type { ApiKeyOwner } from '../../db/api-keys.ts';
import type { TaskLocation, TaskRecord } from '../../db/tasks.ts';
import type { Check } from '../admin/readiness.ts';
import type { Awaitable } from '../awaitable.ts';
import type { OpenQueue, TaskEvent } from '../tasks/queue/driver.ts';
import type { TickFeed } from '../ticker/tick-feed.ts';
import type { TokenStore } from '../ticker/token-store.ts';

/** The stored API keys. Every method throws as `ApiKeys` of `db` does. */
export interface ApiKeyStore {
  findOwner(apiKey: string): Awaitable<ApiKeyOwner | undefined>;
  ensureDemoUser(now: number): Awaitable<{ apiKey: string; created: boolean }>;
}

/** The stored tasks, to be read. Every method throws as `Tasks` of `db` does. */
export interface TaskStore {
  list(status?: string): Awaitable<TaskRecord[]>;
  locate(status?: string): Awaitable<TaskLocation[]>;
  find(id: string): Awaitable<TaskRecord | undefined>;
}

/** Where everything is kept that outlives a request. */
export interface Engine {
  apiKeys: ApiKeyStore;
  tasks: TaskStore;
  openTokenStore(): Awaitable<TokenStore>;
  /** Where one of many nodes ticks for all. */
  openTickFeed(): Awaitable<TickFeed | undefined>;
  /** @param onEvent told of every step of every task */
  openQueue(onEvent: (event: TaskEvent) => void): Awaitable<OpenQueue>;
  /** What the task threads need to find the table of tasks. */
  threadData: object;
  /** Deletes old rows from now on, where a limit is set. @param writeLock the turn to write of the task threads */
  startRetention(writeLock: SharedArrayBuffer): { stop(): Promise<void> } | undefined;
  /** Whether what it keeps can be reached. */
  checks: Readonly<Record<string, Check>>;
  close(): Awaitable<void>;
}
