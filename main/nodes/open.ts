import { PostgresApiKeys } from '../../db/postgres/api-keys.ts';
import { PostgresDatabase } from '../../db/postgres/database.ts';
import { PostgresStore, WRITE_CONNECTIONS } from '../../db/postgres/store.ts';
import type { Clock, Random } from '../../workers/shared/clock.ts';
import type { Backend } from '../backends/backend.ts';
import type { Config } from '../config.ts';
import type { Log } from '../log/log.ts';
import { startRetention } from '../tasks/retention.ts';
import { runMigration } from '../threads/migration.ts';
import type { TickFeed } from '../ticker/ticker.ts';
import type { TokenStore } from '../ticker/token-store.ts';
import { Bus } from './bus.ts';
import { Heartbeat } from './heartbeat.ts';
import { NodeTickFeed } from './tick-feed.ts';
import { NodeTokenStore } from './token-store.ts';

export interface SharedConfig extends Pick<Config, 'queue' | 'tokens' | 'ticker' | 'retention'> {
  databaseUrl: string;
}

export interface NodeParts {
  clock: Clock;
  random: Random;
  log: Log;
}

/** Connections for API keys and tokens. */
const CONNECTIONS = 3;
/** Connections for lists and counts of tasks. */
const READ_CONNECTIONS = 4;
const TIME_LIMIT_MS = 2000;

/** Opens the storage that several nodes share. @throws {Error} if the database cannot be reached or migrated */
export async function openSharedBackend(config: SharedConfig, parts: NodeParts): Promise<Backend> {
  const { databaseUrl } = config;
  const { clock, log } = parts;
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
  const { maxLength, maxBytes, maxKeys } = config.queue;
  const pools = { writes: openPool(WRITE_CONNECTIONS), reads: openPool(READ_CONNECTIONS) };
  const store = new PostgresStore(pools, {
    bounds: { maxLength, maxBytes, maxKeys },
    now: () => clock.now(),
    owner: bus.id,
  });
  const heartbeat = new Heartbeat({
    link: bus.receiving,
    pool: pools.writes,
    id: bus.id,
    recover: (owner) => store.recover(owner),
    onRecovered: () => bus.changed(),
    clock,
    log,
  });
  bus.on('lost', () => heartbeat.forget());
  await heartbeat.open();
  opened.defer(() => heartbeat.close());
  const probe = () => database.probe();
  const all = opened.move();
  return {
    apiKeys: new PostgresApiKeys(database),
    store,
    bus,
    openTokenStore: () => openTokenStore(database, bus, config.tokens.perKey, parts),
    openTickFeed: () => openTickFeed(bus, config.ticker, parts),
    startMaintenance: () => startRetention({ ...config.retention, store, clock, log }),
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

/** Opens the token store of a node. */
export async function openTokenStore(
  database: Pick<PostgresDatabase, 'query'>,
  bus: Bus,
  maxTokensPerKey: number,
  { clock, log }: Pick<NodeParts, 'clock' | 'log'>,
  maxTokens?: number,
): Promise<TokenStore> {
  const store = new NodeTokenStore({ database, bus, maxTokensPerKey, ...(maxTokens && { maxTokens }), clock, log });
  await store.open();
  return store;
}

/** Returns undefined if `seed` is set, because all nodes then compute the same prices. */
export async function openTickFeed(
  bus: Bus,
  { seed, intervalMs }: Pick<Config['ticker'], 'seed' | 'intervalMs'>,
  { clock, log }: Pick<NodeParts, 'clock' | 'log'>,
): Promise<TickFeed | undefined> {
  if (seed !== undefined) return undefined;
  const feed = new NodeTickFeed({ bus, intervalMs, clock, log });
  await feed.open();
  return feed;
}
