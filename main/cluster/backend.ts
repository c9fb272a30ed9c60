import type { Backend } from '../backends/backend.ts';
import type { Config } from '../config.ts';
import type { Log } from '../log.ts';
import { connectNats } from './nats-connection.ts';
import { NatsLink } from './nats-link.ts';
import { openPostgres } from './postgres.ts';
import { openNatsQueue } from './queue/queue.ts';
import { openKvTokenStore, openTickFeed } from './ticker.ts';

/** URLs of the servers that all nodes share. */
export interface SharedServers {
  natsUrl: string;
  databaseUrl: string;
}

/**
 * Opens the backend of several nodes: the queue, tokens and ticks in NATS, API keys and rows in PostgreSQL.
 *
 * @throws {Error} naming the server that cannot be reached
 */
export async function openClusterBackend(config: Config, servers: SharedServers, log: Log): Promise<Backend> {
  const { natsPrefix: prefix, natsReplicas: replicas, tickerSeed: seed, tickIntervalMs: intervalMs } = config;
  const { queueMaxLength: maxLength, queueMaxBytes: maxBytes, idempotencyMaxKeys: maxKeys } = config;
  const connection = await connectNats(servers.natsUrl, log);
  const postgres = await openPostgres({ ...config, databaseUrl: servers.databaseUrl }, log).catch(async (error) => {
    await connection.close();
    throw error;
  });
  const link = new NatsLink(connection);
  return {
    ...postgres,
    openTokenStore: () => openKvTokenStore({ connection, prefix, replicas, maxTokensPerKey: config.tokensPerKey, log }),
    openTickFeed: () => openTickFeed({ connection, prefix, replicas, seed, intervalMs, log }),
    openQueue: (onEvent) =>
      openNatsQueue({ connection, prefix, replicas, bounds: { maxLength, maxBytes, maxKeys }, onEvent }),
    checks: { ...postgres.checks, nats: () => (link.up ? undefined : 'NATS cannot be reached') },
    async close() {
      await postgres.close();
      await connection.close();
    },
  };
}
