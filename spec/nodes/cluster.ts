import { afterTest } from '../support/cleanup.ts';
import { type ProgramOptions, type RunningServices, startServices } from '../support/program.ts';
import { sharedSettings } from '../support/servers.ts';

/** Returns a function that starts nodes, which share a database, and waits until they listen. */
export async function startCluster() {
  const shared = await sharedSettings();
  const nodes: RunningServices[] = [];
  // Registered after the servers' own cleanup, so it runs before them.
  afterTest(async () => {
    for (const { child } of nodes) child.kill('SIGKILL');
    await Promise.all(nodes.map(({ exited }) => exited));
  });
  return {
    async node({ env = {}, ...options }: ProgramOptions = {}): Promise<RunningServices> {
      const node = await startServices({ ...options, env: { ...shared, ...env } });
      nodes.push(node);
      return node;
    },
  };
}
