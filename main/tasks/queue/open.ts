import { join } from 'node:path';
import { Locked, lock } from '../../../db/sqlite/file-lock.ts';
import { WalSync } from '../../../db/sqlite/wal-sync.ts';
import type { Config } from '../../config.ts';
import type { Log } from '../../log.ts';
import { MemoryQueue } from './memory.ts';
import type { OpenQueue, TaskEvent } from './queue.ts';
import { SnapshotFile } from './snapshot-file.ts';
import { LastWriteFailed, openSqliteQueue } from './sqlite.ts';

type OnEvent = (event: TaskEvent) => void;

type QueueConfig = Pick<Config, 'queueDriver' | 'queueMaxLength' | 'queueMaxBytes' | 'idempotencyMaxKeys' | 'dataDir'>;

/**
 * Opens the configured queue with the messages of the previous process.
 *
 * @param onEvent called at every state change of a task
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
  const path = file(config);
  const rows = new WalSync(join(config.dataDir, 'tasks.db'));
  const queue = openSqliteQueue({ path, bounds: bounds(config), rowsOnDisk: () => rows.sync(), onEvent });
  const close = async () => {
    try {
      await queue.close();
      return true;
    } catch (error) {
      log.error({ err: error }, 'the last changes of the queue could not be written');
      // The messages are kept if the file has all of them, even without their latest state.
      return (
        error instanceof LastWriteFailed &&
        queue.snapshot().messages.every(({ sequence }) => error.stored.has(sequence))
      );
    }
  };
  return {
    queue,
    close,
    fileProblem: () => queue.problem(),
    unsynced: () => queue.unsynced(),
    evicted: () => queue.evicted,
  };
}

/** Opens the in-memory queue, which stores a snapshot in `queue.db` at an orderly stop. */
function openMemory(config: QueueConfig, log: Log, onEvent: OnEvent): OpenQueue {
  const snapshotFile = new SnapshotFile(file(config));
  const queue = new MemoryQueue(bounds(config), {
    snapshot: snapshotFile.read(),
    clearSnapshot: () => snapshotFile.clear(),
    onEvent,
  });
  const close = async () => {
    await queue.close();
    try {
      snapshotFile.put(queue.snapshot());
      return true;
    } catch (error) {
      log.error({ err: error }, 'the snapshot of the queue could not be written');
      return false;
    } finally {
      snapshotFile.close();
    }
  };
  return { queue, close, evicted: () => queue.evicted };
}

function bounds({ queueMaxLength, queueMaxBytes, idempotencyMaxKeys }: QueueConfig) {
  return { maxLength: queueMaxLength, maxBytes: queueMaxBytes, maxKeys: idempotencyMaxKeys };
}

function file({ dataDir }: QueueConfig): string {
  return join(dataDir, 'queue.db');
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
