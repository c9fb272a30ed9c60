import type { Backend } from '../backends/backend.ts';
import type { Config } from '../config.ts';
import type { Log } from '../log.ts';
import { connectNats, type NatsSettings } from './nats-link.ts';
import { openPostgres } from './postgres.ts';
import { openNatsQueue } from './queue/queue.ts';
import { openKvTokenStore, openTickFeed } from './ticker-state.ts';

export interface ClusterConfig extends Pick<Config, 'queue' | 'tokens' | 'ticker' | 'retention'> {
  nats: NatsSettings;
  databaseUrl: string;
}

/** Opens the cluster backend. @throws {Error} if a server cannot be reached; the message names the server */
export async function openClusterBackend(config: ClusterConfig, log: Log): Promise<Backend> {
  const link = await connectNats(config.nats, log);
  const postgres = await openPostgres(config.databaseUrl, config.retention, log).catch(async (error) => {
    await link.connection.close();
    throw error;
  });
  return {
    ...postgres,
    openTokenStore: () => openKvTokenStore(link, { maxTokensPerKey: config.tokens.perKey }),
    openTickFeed: () => openTickFeed(link, config.ticker),
    openQueue: (onEvent) => openNatsQueue(link, { bounds: config.queue, onEvent }),
    checks: { ...postgres.checks, nats: () => link.problem() },
    async close() {
      await postgres.close();
      await link.connection.close();
    },
  };
}
