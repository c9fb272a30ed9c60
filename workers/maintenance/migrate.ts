/**
 * Worker thread that creates or migrates the databases, sends the created files, and then ends with exit code 0. An error
 * ends it with code 1.
 */
import { parentPort, workerData } from 'node:worker_threads';
import { migrate } from '../../db/sqlite/migrate.ts';
import type { MigrationStart } from './messages.ts';

const place: MigrationStart = workerData;
if ('dataDir' in place) parentPort?.postMessage(migrate(place.dataDir));
else {
  // Imported lazily, because a single node does not need the PostgreSQL client.
  const { migratePostgres } = await import('../../db/postgres/migrate.ts');
  await migratePostgres(place.databaseUrl);
}
