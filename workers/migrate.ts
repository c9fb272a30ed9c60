/**
 * Creates or migrates the databases, then exits with code 0, or with code 1 on failure. Runs in a worker thread at each
 * start of the service, and as the program of `npm run migrate`.
 */
import { isMainThread, parentPort, workerData } from 'node:worker_threads';
import { type CreatedDatabase, migrate } from '../db/sqlite/migrate.ts';
import type { MigrationReport, TaskStoreLocation } from './messages.ts';

const { DATABASE_URL: databaseUrl, DATA_DIR: dataDir } = process.env;
const configured = databaseUrl ? { databaseUrl } : { dataDir: dataDir || 'data' };
const place: TaskStoreLocation = isMainThread ? configured : workerData;
try {
  const { name, created } = await migrateTo(place);
  parentPort?.postMessage({ created } satisfies MigrationReport);
  if (isMainThread) {
    for (const { file, wasEmpty } of created) console.log(`created ${file}${wasEmpty ? ' in an empty file' : ''}`);
    console.log(`${name} up to date`);
  }
} catch (error) {
  const { message } = error as Error;
  parentPort?.postMessage({ failure: message } satisfies MigrationReport);
  if (isMainThread) console.error(message);
  process.exitCode = 1;
}

/** Migrates the databases. @returns the created files, and in `name` the subject and verb of the success message */
async function migrateTo(place: TaskStoreLocation): Promise<{ name: string; created: CreatedDatabase[] }> {
  if ('databaseUrl' in place) {
    const { migratePostgres } = await import('../db/postgres/migrate.ts');
    return { name: `PostgreSQL at ${await migratePostgres(place.databaseUrl)} is`, created: [] };
  }
  const created = migrate(place.dataDir);
  return { name: `the databases in ${place.dataDir} are`, created };
}
