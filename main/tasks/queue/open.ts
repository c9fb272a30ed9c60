import { join } from 'node:path';
import { Database } from '../../../db/sqlite/database.ts';
import { Locked, lock } from '../../../db/sqlite/file-lock.ts';
import { QueuedMessages, type QueueSnapshot } from '../../../db/sqlite/queued-messages.ts';
import { WalSync } from '../../../db/sqlite/wal-sync.ts';
import type { Config } from '../../config.ts';
import type { Log } from '../../log.ts';
import { DeadLetters } from './dead-letters.ts';
import { LocalQueue } from './local-queue.ts';
import type { OpenQueue, TaskEvent } from './queue.ts';
import { BUSY_TIMEOUT_MS, LastWriteFailed, SqliteJournal } from './sqlite-journal.ts';

type OnEvent = (event: TaskEvent) => void;

type QueueConfig = Pick<Config, 'queueDriver' | 'queueMaxLength' | 'queueMaxBytes' | 'idempotencyMaxKeys' | 'dataDir'>;

/**
 * Opens the configured queue with the messages of the previous process. `onEvent` is called at every state change of a task.
 *
 * @throws {Error} if another process uses the folder, or its `queue.db` cannot be opened
 */
export function openQueue(config: QueueConfig, log: Log, onEvent: OnEvent = () => {}): OpenQueue {
  const unlock = lockFolder(config.dataDir);
  try {
    const opened =
      config.queueDriver === 'sqlite' ? openDurable(config, log, onEvent) : openMemory(config, log, onEvent);
    return { ...opened, close: () => opened.close().finally(unlock) };
  } catch (error) {
    unlock();
    throw error;
  }
}

function openDurable(config: QueueConfig, log: Log, onEvent: OnEvent): OpenQueue {
  const rows = new WalSync(join(config.dataDir, 'tasks.db'));
  const journal = new SqliteJournal(join(config.dataDir, 'queue.db'), () => rows.sync());
  const deadLetters = new DeadLetters();
  const queue = new LocalQueue(bounds(config), { deadLetters, journal, snapshot: journal.read(), onEvent });
  const close = async () => {
    try {
      await queue.close();
      return true;
    } catch (error) {
      log.error({ err: error }, 'the last changes of the queue could not be written');
      // Returns true if the file has all messages, even if not in their latest state, because the next start then delivers them.
      return (
        error instanceof LastWriteFailed &&
        queue.snapshot().messages.every(({ sequence }) => error.stored.has(sequence))
      );
    }
  };
  return {
    queue,
    close,
    fileProblem: () => journal.problem(),
    unsynced: () => journal.unsynced(),
    evicted: () => deadLetters.evicted,
  };
}

/** Opens an in-memory queue. Its snapshot in `queue.db` is written at an orderly stop, and cleared before the first delivery. */
function openMemory(config: QueueConfig, log: Log, onEvent: OnEvent): OpenQueue {
  const database = new Database(join(config.dataDir, 'queue.db'), { busyTimeoutMs: BUSY_TIMEOUT_MS });
  const stored = new QueuedMessages(database);
  const deadLetters = new DeadLetters();
  const clearSnapshot = () => database.transaction(true, () => stored.clear());
  const queue = new LocalQueue(bounds(config), { deadLetters, snapshot: stored.read(), clearSnapshot, onEvent });
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
  return { queue, close, evicted: () => deadLetters.evicted };
}

function writeSnapshot(stored: QueuedMessages, { messages, deadLetters, keys }: QueueSnapshot): void {
  stored.clear();
  for (const entry of messages) stored.insert(entry);
  for (const letter of deadLetters) stored.insertDeadLetter(letter);
  for (const record of keys) stored.insertKey(record);
}

function bounds({ queueMaxLength, queueMaxBytes, idempotencyMaxKeys }: QueueConfig) {
  return { maxLength: queueMaxLength, maxBytes: queueMaxBytes, maxKeys: idempotencyMaxKeys };
}

function lockFolder(dataDir: string): () => void {
  try {
    return lock(join(dataDir, 'queue.lock'));
  } catch (error) {
    if (!(error instanceof Locked)) {
      throw new Error(`${(error as Error).message}: delete the file, which holds no data`, { cause: error });
    }
    const message = `another process uses ${dataDir}: stop it, or set DATA_DIR to another folder`;
    throw new Error(message, { cause: error });
  }
}
