import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { mock } from 'node:test';
import { Database } from '../../db/sqlite/database.ts';
import { migrate } from '../../db/sqlite/migrate.ts';
import type { DeadLetterStore } from '../../main/tasks/queue/dead-letter-store.ts';
import { LocalQueue, type LocalQueueOptions } from '../../main/tasks/queue/local-queue.ts';
import type { QueueBounds } from '../../main/tasks/queue/queue.ts';
import { SqliteJournal } from '../../main/tasks/queue/sqlite-journal.ts';
import { afterTest, temporaryFolder } from '../support/cleanup.ts';

export const roomy = { maxLength: 1000, maxBytes: 100_000, maxKeys: 10 };

export async function freshFile(): Promise<string> {
  const folder = await temporaryFolder();
  migrate(folder);
  return join(folder, 'queue.db');
}

interface SqliteQueueOptions extends Pick<LocalQueueOptions, 'deadLetters' | 'onEvent'> {
  bounds?: QueueBounds;
  rowsOnDisk?: () => Promise<void>;
}

/** Opens a durable queue. By default, it treats result rows as synced to disk. */
export function openSqliteQueue(
  path: string,
  { bounds = roomy, rowsOnDisk = async () => {}, ...options }: SqliteQueueOptions = {},
): LocalQueue {
  const journal = new SqliteJournal(path, rowsOnDisk);
  return new LocalQueue(bounds, { ...options, journal, snapshot: journal.read() });
}

/** Opens a durable queue that is closed after the test. */
export function open(path: string, deadLetters?: DeadLetterStore): LocalQueue {
  const queue = openSqliteQueue(path, deadLetters && { deadLetters });
  afterTest(() => queue.close());
  return queue;
}

/** Opens a second connection to the queue's file. */
export function beside(path: string): DatabaseSync {
  const database = new DatabaseSync(path);
  afterTest(() => database.close());
  return database;
}

/**
 * Records the transactions from now on. The returned function says for each since its last call whether it was
 * durable.
 */
export function durableTransactions(): () => boolean[] {
  const { mock: spy } = mock.method(Database.prototype, 'transaction');
  afterTest(() => spy.restore());
  return () => {
    const calls = spy.calls.map(({ arguments: [durable] }) => durable);
    spy.resetCalls();
    return calls;
  };
}
