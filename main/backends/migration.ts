import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import type { CreatedDatabase } from '../../db/sqlite/migrate.ts';
import type { MigrationReport, TaskStoreLocation } from '../../workers/messages.ts';
import { workerFile } from '../worker-file.ts';

/** Migration timeout. Startup fails after this time instead of hanging on an unresponsive disk. */
const TIME_LIMIT_MS = 60_000;

/**
 * Migrates the databases in a worker thread.
 *
 * @returns the created database files; always empty for PostgreSQL
 * @throws {Error} with the reason if the migration fails or takes too long
 */
export async function runMigration(location: TaskStoreLocation): Promise<CreatedDatabase[]> {
  const worker = new Worker(workerFile('migrate'), { workerData: location, name: 'migration' });
  let report: MigrationReport | undefined;
  worker.on('message', (message: MigrationReport) => {
    report = message;
  });
  const [code] = await once(worker, 'exit', { signal: AbortSignal.timeout(TIME_LIMIT_MS) }).catch((error) => {
    const isTimeout = error.name === 'AbortError';
    throw isTimeout ? new Error(`the migration did not finish within ${TIME_LIMIT_MS / 1000} s`) : error;
  });
  if (report !== undefined && 'failure' in report) throw new Error(report.failure);
  if (code !== 0) throw new Error(`the migration ended with exit code ${code}`);
  return report?.created ?? [];
}
