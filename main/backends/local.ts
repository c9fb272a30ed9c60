import { join } from 'node:path';
import { ApiKeys } from '../../db/sqlite/api-keys.ts';
import { lockDataFolder } from '../../db/sqlite/data-folder-lock.ts';
import { Database } from '../../db/sqlite/database.ts';
import { Tasks } from '../../db/sqlite/tasks.ts';
import type { Config } from '../config.ts';
import type { Log } from '../log.ts';
import { openQueue } from '../tasks/queue/open.ts';
import { startRetentionThread } from '../tasks/retention-thread.ts';
import { MemoryTokenStore } from '../ticker/memory-token-store.ts';
import type { Backend } from './backend.ts';
import { runMigration } from './migration.ts';

/** Maximum wait for a SQLite lock. Short, because the wait blocks the event loop. */
const BUSY_TIMEOUT_MS = 50;

type LocalConfig = Pick<Config, 'storage' | 'queue' | 'tokens' | 'retention'>;

/** Opens the storage of a single node. @throws {Error} if another process uses `DATA_DIR`, or the migration fails */
export async function openLocalBackend(config: LocalConfig, log: Log): Promise<Backend> {
  const { dataDir } = config.storage;
  const unlock = lockDataFolder(dataDir);
  try {
    return await openDatabases(config, unlock, log);
  } catch (error) {
    unlock();
    throw error;
  }
}

async function openDatabases(config: LocalConfig, unlock: () => void, log: Log): Promise<Backend> {
  const { dataDir } = config.storage;
  const { rows, days } = config.retention;
  for (const { file, wasEmpty } of await runMigration({ dataDir })) {
    if (wasEmpty)
      log.warn({ file }, 'database created in an empty file: if the file held data, stop and restore a backup');
    else log.info({ file }, 'database created');
  }
  const open = (file: string) => new Database(join(dataDir, file), { busyTimeoutMs: BUSY_TIMEOUT_MS });
  const auth = open('auth.db');
  const tasks = open('tasks.db');
  return {
    apiKeys: new ApiKeys(auth),
    tasks: new Tasks(tasks),
    openTokenStore: () => new MemoryTokenStore({ maxTokensPerKey: config.tokens.perKey }),
    openTickFeed: () => undefined,
    openQueue: (onEvent) => openQueue(config.queue, dataDir, log, onEvent),
    taskStoreLocation: { dataDir },
    startRetention(writeLock) {
      return rows > 0 || days > 0 ? startRetentionThread({ dataDir, rows, days, writeLock, log }) : undefined;
    },
    checks: { auth_database: () => auth.probe(), tasks_database: () => tasks.probe() },
    close() {
      auth.close();
      tasks.close();
      unlock();
    },
  };
}
