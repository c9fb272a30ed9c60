import type { Config } from '../config.ts';
import type { Log } from '../log.ts';
import { openEmbeddedEngine } from './embedded.ts';
import type { Engine } from './engine.ts';

/** Opens the backend: cluster servers if configured, else local files. @throws {Error} that says what to fix */
export async function openEngine(config: Config, log: Log): Promise<Engine> {
  const { natsUrl, databaseUrl } = config;
  if (natsUrl === undefined || databaseUrl === undefined) return openEmbeddedEngine(config, log);
  // Imported lazily, because a single node needs neither client library.
  const { openClusterEngine } = await import('./cluster.ts');
  return openClusterEngine(config, { natsUrl, databaseUrl }, log);
}
