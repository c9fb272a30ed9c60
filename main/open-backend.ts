import type { Backend } from './backends/backend.ts';
import { openLocalBackend } from './backends/local.ts';
import type { Config } from './config.ts';
import type { Log } from './log.ts';

/** Opens the backend: NATS and PostgreSQL if configured, else local files. @throws {Error} whose message says what to fix */
export async function openBackend(config: Config, log: Log): Promise<Backend> {
  const { natsUrl, databaseUrl } = config;
  if (natsUrl === undefined || databaseUrl === undefined) return openLocalBackend(config, log);
  // Imported lazily, because a single node needs neither client library.
  const { openClusterBackend } = await import('./cluster/backend.ts');
  return openClusterBackend({ ...config, natsUrl, databaseUrl }, log);
}
