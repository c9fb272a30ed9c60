/** Worker thread that creates or migrates the databases, and then ends with exit code 0. */
import { parentPort, workerData } from 'node:worker_threads';
import { type CreatedDatabase, migrate } from '../db/sqlite/migrate.ts';
import type { MigrationReport, TaskStoreLocation } from './messages.ts';

try {
  parentPort?.postMessage({ created: await migrateTo(workerData) } satisfies MigrationReport);
} catch (error) {
  parentPort?.postMessage({ failure: (error as Error).message } satisfies MigrationReport);
  process.exitCode = 1;
}

async function migrateTo(place: TaskStoreLocation): Promise<CreatedDatabase[]> {
  const onStart = () => parentPort?.postMessage({ started: true } satisfies MigrationReport);
  if (!('databaseUrl' in place)) return migrate(place.dataDir, onStart);
  const { migratePostgres } = await import('../db/postgres/migrate.ts');
  await migratePostgres(place.databaseUrl, { onStart });
  return [];
}
