/** Creates or migrates the databases once, at each start of the services, and then ends with exit code 0. */
import { parentPort, workerData } from 'node:worker_threads';
import { type CreatedDatabase, migrate } from '../db/sqlite/migrate.ts';
import type { MigrationReport, TaskStoreLocation } from './messages.ts';

try {
  parentPort?.postMessage({ created: await migrateTo(workerData) } satisfies MigrationReport);
} catch (error) {
  parentPort?.postMessage({ failure: (error as Error).message } satisfies MigrationReport);
  process.exitCode = 1;
}

/** Migrates the databases. @returns the created files */
async function migrateTo(place: TaskStoreLocation): Promise<CreatedDatabase[]> {
  if (!('databaseUrl' in place)) return migrate(place.dataDir);
  const { migratePostgres } = await import('../db/postgres/migrate.ts');
  await migratePostgres(place.databaseUrl);
  return [];
}
