import { type NatsServer, startNatsServer } from './nats-server.ts';
import { emptySchema } from './servers.ts';

/** NATS and PostgreSQL for the nodes of one test. */
export interface SharedServers {
  nats: NatsServer;
  /** Settings common to all nodes. */
  env: Record<string, string>;
}

/** @param databaseUrl URL of the database; by default an empty schema on the server that all specs share */
export async function startSharedServers(databaseUrl?: string): Promise<SharedServers> {
  const [nats, DATABASE_URL] = await Promise.all([
    startNatsServer(),
    databaseUrl ?? emptySchema().then(({ url }) => url),
  ]);
  return { nats, env: { NATS_URL: nats.url, DATABASE_URL, TOKEN_KEY: 'the key that all nodes of a spec share' } };
}
