import { join } from 'node:path';
import { ApiKeys, openAuthDatabase } from '../../db/sqlite/api-keys.ts';
import { lockDataFolder } from '../../db/sqlite/data-folder.ts';
import { SqliteStore } from '../../db/sqlite/store.ts';
import type { TaskStore } from '../../db/task-store.ts';
import type { Clock, Random } from '../../workers/shared/clock.ts';
import type { Config } from '../config.ts';
import type { Checks } from '../http/readiness.ts';
import type { Log } from '../log/log.ts';
import { createMaintenance, startRetention } from '../tasks/maintenance.ts';
import type { TasksBackend } from '../tasks/service.ts';
import { runMigration } from '../threads/one-shot-threads.ts';
import type { TickerBackend } from '../ticker/service.ts';
import { keepTokens, MemoryTokenStore, takeTokens } from '../ticker/token-store.ts';
import { createdBy } from '../ticker/tokens.ts';

/** Storage for state that outlives a request: local files and memory, or a PostgreSQL database that nodes share. */
export interface Backend extends TickerBackend, TasksBackend {
  store: TaskStore;
  checks: Checks;
  close(): Promise<void>;
}

type BackendConfig = Pick<Config, 'storage' | 'queue' | 'tokens' | 'ticker' | 'retention'>;

/** Maximum wait for a SQLite lock. Short, because the wait blocks the event loop. */
const BUSY_TIMEOUT_MS = 50;

/** Opens the configured storage: PostgreSQL, or local files. @throws {Error} that says what to fix */
export async function openBackend(config: BackendConfig, clock: Clock, random: Random, log: Log): Promise<Backend> {
  const { databaseUrl, dataDir } = config.storage;
  if (databaseUrl !== undefined) {
    // Imported lazily, because a single node does not need the PostgreSQL client.
    const { openSharedBackend } = await import('../nodes/open.ts');
    return openSharedBackend(databaseUrl, config, { clock, random, log });
  }
  using opened = new DisposableStack();
  opened.defer(lockDataFolder(dataDir));
  const { driver, ...bounds } = config.queue;
  for (const { file, wasEmpty } of await runMigration({ dataDir })) {
    if (wasEmpty)
      log.warn({ file }, 'database created in an empty file: if the file held data, stop and restore a backup');
    else log.info({ file }, 'database created');
  }
  const maintenance = createMaintenance({
    dataDir,
    hold: () => store.holdWrites(),
    resume: () => store.resumeWrites(),
    log,
  });
  const store = new SqliteStore({
    dataDir,
    driver: driver === 'sqlite' ? 'sqlite' : 'memory',
    bounds,
    now: () => clock.now(),
    newId: () => random.uuid(),
    excessRows: (rows) => maintenance.excessRows(rows),
    onSaveFailed: (error) => log.error({ err: error }, 'the queue cannot be saved: accepted tasks are lost'),
  });
  const auth = openAuthDatabase(join(dataDir, 'auth.db'), BUSY_TIMEOUT_MS);
  opened.defer(() => auth.close());
  const all = opened.move();
  const apiKeys = new ApiKeys(auth);
  const tokens = new MemoryTokenStore({ maxTokensPerKey: config.tokens.perKey, clock });
  const file = join(dataDir, 'tokens.json');
  return {
    apiKeys,
    store,
    openTokenStore: () => tokens,
    lastTokens: {
      async take() {
        const users = (await apiKeys.list()).map(({ user_id }) => createdBy(user_id));
        return { ...takeTokens(file, log), apiKeys: [...apiKeys.keys(), ...users] };
      },
      keep: (key) => keepTokens(file, { key, records: tokens.records() }, log),
    },
    openTickFeed: () => undefined,
    startMaintenance() {
      maintenance.start();
      const deletion = startRetention({ ...config.retention, store, clock, log });
      return {
        async stop() {
          await Promise.all([deletion.stop(), maintenance.stop()]);
        },
      };
    },
    checks: { auth_database: () => auth.probe(), tasks_database: () => store.problem() },
    async close() {
      await store.close();
      all.dispose();
    },
  };
}
