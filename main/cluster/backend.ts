import type { Backend } from '../backends/backend.ts';
import type { Config } from '../config.ts';
import type { Log } from '../log.ts';
import { connectNats } from './nats-connection.ts';
import { NatsLink } from './nats-link.ts';
import { openPostgres } from './postgres.ts';
import { openNatsQueue } from './queue/queue.ts';
import { openKvTokenStore, openTickFeed } from './ticker-state.ts';

/** Settings with the URLs of the servers that all nodes share. */
export type ClusterConfig = Config & { natsUrl: string; databaseUrl: string };

/**
 * Opens the backend for several nodes: the queue, tokens and ticks in NATS, API keys and result rows in PostgreSQL.
 *
 * @throws {Error} naming the server that cannot be reached
 */
export async function openClusterBackend(config: ClusterConfig, log: Log): Promise<Backend> {
  const { tickerSeed: seed, tickIntervalMs: intervalMs, tokensPerKey: maxTokensPerKey } = config;
  const { queueMaxLength: maxLength, queueMaxBytes: maxBytes, idempotencyMaxKeys: maxKeys } = config;
  const connection = await connectNats(config.natsUrl, log);
  const postgres = await openPostgres(config, log).catch(async (error) => {
    await connection.close();
    throw error;
  });
  const link = new NatsLink(connection);
  const shared = { connection, prefix: config.natsPrefix, replicas: config.natsReplicas };
  return {
    ...postgres,
    openTokenStore: () => openKvTokenStore({ ...shared, maxTokensPerKey, log }),
    openTickFeed: () => openTickFeed({ ...shared, seed, intervalMs, log }),
    openQueue: (onEvent) => openNatsQueue({ ...shared, bounds: { maxLength, maxBytes, maxKeys }, onEvent }),
    checks: { ...postgres.checks, nats: () => (link.up ? undefined : 'NATS cannot be reached') },
    async close() {
      await postgres.close();
      await connection.close();
    },
  };
}
