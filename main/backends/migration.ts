import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import type { CreatedDatabase } from '../../db/sqlite/migrate.ts';
import type { MigrationReport, TaskStoreLocation } from '../../workers/messages.ts';
import { workerFile } from '../worker-file.ts';

/** Maximum time until the migration begins. The migration itself may take long, depending on the number of rows. */
const TIME_LIMIT_MS = 60_000;

/**
 * Migrates the databases in a worker thread, and returns the created database files (none for PostgreSQL).
 *
 * @throws {Error} with the reason if the migration fails or takes too long to begin
 */
export async function runMigration(location: TaskStoreLocation): Promise<CreatedDatabase[]> {
  const worker = new Worker(workerFile('migrate'), { workerData: location, name: 'migration' });
  const timeout = new AbortController();
  const timer = setTimeout(() => timeout.abort(), TIME_LIMIT_MS);
  let report: MigrationReport | undefined;
  worker.on('message', (message: MigrationReport) => {
    report = message;
    clearTimeout(timer);
  });
  const [code] = await once(worker, 'exit', { signal: timeout.signal })
    .catch((error) => {
      const isTimeout = error.name === 'AbortError';
      throw isTimeout ? new Error(`the migration did not start within ${TIME_LIMIT_MS / 1000} s`) : error;
    })
    .finally(() => clearTimeout(timer));
  if (report !== undefined && 'failure' in report) throw new Error(report.failure);
  if (code !== 0) throw new Error(`the migration ended with exit code ${code}`);
  return report !== undefined && 'created' in report ? report.created : [];
}
