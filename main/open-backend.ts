import type { Backend } from './backends/backend.ts';
import { openLocalBackend } from './backends/local.ts';
import type { Config } from './config.ts';
import type { Log } from './log.ts';

type BackendConfig = Pick<Config, 'storage' | 'nats' | 'queue' | 'tokens' | 'ticker' | 'retention'>;

/** Opens the configured storage: NATS and PostgreSQL, or local files. @throws {Error} that says what to fix */
export async function openBackend({ storage, nats, ...others }: BackendConfig, log: Log): Promise<Backend> {
  const { url } = nats;
  const { databaseUrl } = storage;
  if (url === undefined || databaseUrl === undefined) return openLocalBackend({ storage, ...others }, log);
  // Imported lazily, because a single node needs neither the NATS nor the PostgreSQL client.
  const { openClusterBackend } = await import('./cluster/backend.ts');
  return openClusterBackend({ ...others, nats: { ...nats, url }, databaseUrl }, log);
}
