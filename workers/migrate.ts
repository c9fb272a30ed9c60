/**
 * The one-shot migration: creates what is missing and ends with exit code 0, or says in one line why it
 * cannot and ends with 1. A worker thread at every start; a program of its own for `npm run migrate`.
 */
import { isMainThread, parentPort, workerData } from 'node:worker_threads';
import { migrate } from '../db/migrate.ts';
import type { RowsPlace } from './messages.ts';

const { DATABASE_URL: databaseUrl, DATA_DIR: dataDir } = process.env;
const place: RowsPlace = isMainThread ? (databaseUrl ? { databaseUrl } : { dataDir: dataDir || 'data' }) : workerData;
try {
  const name = await migrateTo(place);
  if (isMainThread) console.log(`${name} up to date`);
} catch (error) {
  const { message } = error as Error;
  if (isMainThread) console.error(message);
  else parentPort?.postMessage(message);
  process.exitCode = 1;
}

/** @returns the beginning of a sentence on what was migrated */
async function migrateTo(place: RowsPlace): Promise<string> {
  if ('databaseUrl' in place) {
    const { migratePostgres } = await import('../db/postgres/migrate.ts');
    return `PostgreSQL at ${await migratePostgres(place.databaseUrl)} is`;
  }
  migrate(place.dataDir);
  return `the databases in ${place.dataDir} are`;
}
