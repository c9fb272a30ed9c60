import { afterTest } from '../support/cleanup.ts';
import { type NatsServer, startNatsServer } from '../support/nats-server.ts';
import { type ProgramOptions, type RunningServices, startServices } from '../support/program.ts';
import { emptySchema } from '../support/servers.ts';

/** Servers that nodes share, and nothing else on them. */
export interface Cluster {
  nats: NatsServer;
  /** Settings of every node. */
  env: Record<string, string>;
  /** Starts a node, in a folder of its own, and waits until it listens. */
  node(options?: ProgramOptions): Promise<RunningServices>;
}

/** @param databaseUrl an empty schema on the server that all specs share where absent */
export async function startCluster(databaseUrl?: string): Promise<Cluster> {
  const [nats, DATABASE_URL] = await Promise.all([
    startNatsServer(),
    databaseUrl ?? emptySchema().then(({ url }) => url),
  ]);
  const env = { NATS_URL: nats.url, DATABASE_URL, TOKEN_KEY: 'the key that all nodes of a spec share' };
  const nodes: RunningServices[] = [];
  // Before the servers go.
  afterTest(async () => {
    for (const { child } of nodes) child.kill('SIGKILL');
    await Promise.all(nodes.map(({ exited }) => exited));
  });
  return {
    nats,
    env,
    async node({ env: own = {}, ...options } = {}) {
      const node = await startServices({ ...options, env: { ...env, ...own } });
      nodes.push(node);
      return node;
    },
  };
}
