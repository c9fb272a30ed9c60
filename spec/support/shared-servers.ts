import { type NatsServer, startNatsServer } from './nats-server.ts';
import { emptySchema } from './servers.ts';

/** Servers that nodes share, and nothing else on them. */
export interface SharedServers {
  nats: NatsServer;
  /** Settings of every node. */
  env: Record<string, string>;
}

/** @param databaseUrl an empty schema on the server that all specs share where absent */
export async function startSharedServers(databaseUrl?: string): Promise<SharedServers> {
  const [nats, DATABASE_URL] = await Promise.all([
    startNatsServer(),
    databaseUrl ?? emptySchema().then(({ url }) => url),
  ]);
  return { nats, env: { NATS_URL: nats.url, DATABASE_URL, TOKEN_KEY: 'the key that all nodes of a spec share' } };
}
