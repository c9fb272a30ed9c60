import { afterTest } from '../support/cleanup.ts';
import { type ProgramOptions, type RunningServices, startServices } from '../support/program.ts';
import { sharedSettings } from '../support/servers.ts';

export type Cluster = Awaited<ReturnType<typeof startCluster>>;

/**
 * Returns the settings of nodes that share a database, and a function that starts them.
 *
 * @param databaseUrl a PostgreSQL to use instead of the server shared by all specs
 */
export async function startCluster(databaseUrl?: string) {
  const shared = await sharedSettings(databaseUrl);
  const nodes: RunningServices[] = [];
  // Registered after the servers' own cleanup, so it runs before them.
  afterTest(async () => {
    for (const { child } of nodes) child.kill('SIGKILL');
    await Promise.all(nodes.map(({ exited }) => exited));
  });
  return {
    env: shared,
    /** Starts a node and waits until it listens. */
    async node({ env = {}, ...options }: ProgramOptions = {}): Promise<RunningServices> {
      const node = await startServices({ ...options, env: { ...shared, ...env } });
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
