/** Worker thread that creates or migrates the databases, and then ends with exit code 0. An error ends it with code 1. */
import { parentPort, workerData } from 'node:worker_threads';
import { migrate } from '../../db/sqlite/migrate.ts';
import type { MigrationReport, MigrationStart } from './messages.ts';

const place: MigrationStart = workerData;
const post = (report: MigrationReport) => parentPort?.postMessage(report);
const onStart = () => post({ started: true });
if ('dataDir' in place) post({ created: migrate(place.dataDir, onStart) });
else {
  // Imported lazily, because a single node does not need the PostgreSQL client.
  const { migratePostgres } = await import('../../db/postgres/migrate.ts');
  await migratePostgres(place.databaseUrl, { onStart });
}
