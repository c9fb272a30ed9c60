import { afterTest } from '../support/cleanup.ts';
import { type ProgramOptions, type RunningServices, startServices } from '../support/program.ts';
import { type SharedServers, startSharedServers } from '../support/shared-servers.ts';

/** Nodes and the servers that they share. */
export interface Cluster extends SharedServers {
  /** Starts a node in its own data folder and waits until it listens. */
  node(options?: ProgramOptions): Promise<RunningServices>;
}

/**
 * Starts the servers that the nodes share.
 * @param databaseUrl a PostgreSQL to use instead of the server shared by all specs
 */
export async function startCluster(databaseUrl?: string): Promise<Cluster> {
  const servers = await startSharedServers(databaseUrl);
  const nodes: RunningServices[] = [];
  // Registered after the servers' own cleanup, so it runs before them.
  afterTest(async () => {
    for (const { child } of nodes) child.kill('SIGKILL');
    await Promise.all(nodes.map(({ exited }) => exited));
  });
  return {
    ...servers,
    async node({ env = {}, ...options } = {}) {
      const node = await startServices({ ...options, env: { ...servers.env, ...env } });
      nodes.push(node);
      return node;
    },
  };
}

/** Starts `count` nodes at the same time. */
export async function startNodes(
  cluster: Cluster,
  count: number,
  env: Record<string, string> = {},
): Promise<RunningServices[]> {
  return Promise.all(Array.from({ length: count }, () => cluster.node({ env })));
}
