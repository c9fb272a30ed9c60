import type { Config } from '../config.ts';
import type { Log } from '../log.ts';
import { openEmbeddedEngine } from './embedded.ts';
import type { Engine } from './engine.ts';

/** Opens what the services keep: on servers that nodes share, or here. @throws {Error} whose message says what to mend */
export async function openEngine(config: Config, log: Log): Promise<Engine> {
  const { natsUrl, databaseUrl } = config;
  if (natsUrl === undefined || databaseUrl === undefined) return openEmbeddedEngine(config, log);
  // Its packages are nobody's business who has no such servers.
  const { openClusterEngine } = await import('./cluster.ts');
  return openClusterEngine(config, { natsUrl, databaseUrl }, log);
}
