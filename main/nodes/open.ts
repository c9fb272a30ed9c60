import { PostgresApiKeys } from '../../db/postgres/api-keys.ts';
import { PostgresDatabase } from '../../db/postgres/database.ts';
import { PostgresStore, WRITE_CONNECTIONS } from '../../db/postgres/store.ts';
import type { Clock, Random } from '../../workers/shared/clock.ts';
import type { Config } from '../config.ts';
import type { Log } from '../log/log.ts';
import { startRetention } from '../tasks/maintenance.ts';
import { runMigration } from '../threads/one-shot-threads.ts';
import { Bus } from './bus.ts';
import { Heartbeat } from './heartbeat.ts';
import { NodeTickFeed } from './tick-feed.ts';
import { NodeTokenStore } from './token-store.ts';

/** Connections for API keys and tokens. */
const CONNECTIONS = 3;
/** Connections for lists and counts of tasks. */
const READ_CONNECTIONS = 4;
const TIME_LIMIT_MS = 2000;

/** Opens the storage that several nodes share. @throws {Error} if the database cannot be reached or migrated */
export async function openSharedBackend(
  databaseUrl: string,
  { queue, tokens, ticker, retention }: Pick<Config, 'queue' | 'tokens' | 'ticker' | 'retention'>,
  parts: { clock: Clock; random: Random; log: Log },
) {
  const { clock, log } = parts;
  const { seed, intervalMs } = ticker;
  await runMigration({ databaseUrl });
  await using opened = new AsyncDisposableStack();
  const openPool = (connections: number) => {
    const onLost = (reason: string) => log.warn({ reason }, 'a connection to PostgreSQL was lost');
    const pool = new PostgresDatabase(databaseUrl, { connections, timeLimitMs: TIME_LIMIT_MS, onLost });
    opened.defer(() => pool.close());
    return pool;
  };
  const database = openPool(CONNECTIONS);
  const bus = new Bus({ databaseUrl, database: openPool(1), ...parts });
  opened.defer(() => bus.close());
  await bus.open();
  log.info({ node: bus.id }, 'connected to PostgreSQL');
  const { driver: _, ...bounds } = queue;
  const pools = { writes: openPool(WRITE_CONNECTIONS), reads: openPool(READ_CONNECTIONS) };
  const store = new PostgresStore(pools, { bounds, now: () => clock.now(), owner: bus.id });
  const heartbeat = new Heartbeat({ bus, pool: pools.writes, store, clock, log });
  await heartbeat.open();
  opened.defer(() => heartbeat.close());
  const probe = () => database.probe();
  const all = opened.move();
  return {
    apiKeys: new PostgresApiKeys(database),
    store,
    bus,
    openTokenStore: () => new NodeTokenStore({ database, bus, maxTokensPerKey: tokens.perKey, clock, log }).open(),
    // With a seed, all nodes compute the same prices, so each makes its own ticks.
    openTickFeed: () => (seed === undefined ? new NodeTickFeed({ bus, intervalMs, clock, log }).open() : undefined),
    startMaintenance: () => startRetention({ ...retention, store, clock, log }),
    checks: {
      auth_database: probe,
      tasks_database: probe,
      notifications: () => (bus.receiving.isUp ? undefined : 'the connection to PostgreSQL is lost'),
    },
    async close() {
      await store.close();
      await all.disposeAsync();
    },
  };
}
