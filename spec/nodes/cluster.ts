import { afterTest } from '../support/cleanup.ts';
import { type ProgramOptions, type RunningServices, startServices } from '../support/program.ts';
import { sharedSettings } from '../support/servers.ts';

/** Returns the settings of nodes that share a database, and a function that starts one and waits until it listens. */
export async function startCluster() {
  const shared = await sharedSettings();
  const nodes: RunningServices[] = [];
  // Registered after the servers' own cleanup, so it runs before them.
  afterTest(async () => {
    for (const { child } of nodes) child.kill('SIGKILL');
    await Promise.all(nodes.map(({ exited }) => exited));
  });
  return {
    env: shared,
    async node({ env = {}, ...options }: ProgramOptions = {}): Promise<RunningServices> {
      const node = await startServices({ ...options, env: { ...shared, ...env } });
      nodes.push(node);
      return node;
    },
  };
}
