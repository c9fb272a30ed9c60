import { join } from 'node:path';
import { Database } from '../../../db/sqlite/database.ts';
import { QueuedMessages, type QueueSnapshot } from '../../../db/sqlite/queued-messages.ts';
import { WalSync } from '../../../db/sqlite/wal-sync.ts';
import type { Config } from '../../config.ts';
import type { Log } from '../../log.ts';
import { DeadLetterStore } from './dead-letter-store.ts';
import { LastWriteFailed } from './last-write-failed.ts';
import { LocalQueue, type LocalQueueOptions } from './local-queue.ts';
import type { OpenQueue, QueueBounds, TaskEvent } from './queue.ts';
import { BUSY_TIMEOUT_MS, SqliteJournal } from './sqlite-journal.ts';

/** Opens the queue in `dataDir`, which the caller must have locked. @throws {Error} if `queue.db` cannot be opened */
export function openQueue(
  { driver, ...bounds }: Config['queue'],
  dataDir: string,
  log: Log,
  onEvent: (event: TaskEvent) => void = () => {},
): OpenQueue {
  const open = driver === 'sqlite' ? openDurable : openMemory;
  const deadLetters = new DeadLetterStore();
  const opened = open(bounds, dataDir, log, { deadLetters, onEvent });
  return { ...opened, evicted: () => deadLetters.evicted };
}

function openDurable(bounds: QueueBounds, dataDir: string, log: Log, options: LocalQueueOptions): OpenQueue {
  const rows = new WalSync(join(dataDir, 'tasks.db'));
  const journal = new SqliteJournal(join(dataDir, 'queue.db'), () => rows.sync());
  const queue = new LocalQueue(bounds, { ...options, journal, snapshot: journal.read() });
  const close = async () => {
    try {
      await queue.close();
      return true;
    } catch (error) {
      log.error({ err: error }, 'the last changes of the queue could not be written');
      // The last changes are lost, but no unfinished task is lost if the file contains every message of the queue.
      return (
        error instanceof LastWriteFailed &&
        queue.snapshot().messages.every(({ sequence }) => error.stored.has(sequence))
      );
    }
  };
  return { queue, close, fileProblem: () => journal.problem(), unsynced: () => journal.unsynced() };
}

function openMemory(bounds: QueueBounds, dataDir: string, log: Log, options: LocalQueueOptions): OpenQueue {
  const database = new Database(join(dataDir, 'queue.db'), { busyTimeoutMs: BUSY_TIMEOUT_MS });
  const stored = new QueuedMessages(database);
  const clearSnapshot = () => database.transaction(true, () => stored.clear());
  const queue = new LocalQueue(bounds, { ...options, snapshot: stored.read(), clearSnapshot });
  const close = async () => {
    await queue.close();
    try {
      database.transaction(true, () => writeSnapshot(stored, queue.snapshot()));
      return true;
    } catch (error) {
      log.error({ err: error }, 'the snapshot of the queue could not be written');
      return false;
    } finally {
      database.close();
    }
  };
  return { queue, close };
}

function writeSnapshot(stored: QueuedMessages, { messages, deadLetters, keys, paused }: QueueSnapshot): void {
  stored.clear();
  for (const entry of messages) stored.insert(entry);
  for (const letter of deadLetters) stored.insertDeadLetter(letter);
  for (const record of keys) stored.insertKey(record);
  if (paused) stored.storePause(true);
}
