import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import type { CreatedDatabase } from '../db/migrate.ts';
import type { MigrationReport, RowsPlace } from '../workers/messages.ts';
import { workerFile } from './worker-file.ts';

/** A disk that does not answer must not look like a start that takes long. */
const TIME_LIMIT_MS = 60_000;

/**
 * Runs the one-shot migration in a thread of its own, and waits for its end.
 *
 * @returns the database files that were created
 * @throws {Error} whose message says why, when its exit code is not 0
 */
export async function runMigration(place: RowsPlace): Promise<CreatedDatabase[]> {
  const worker = new Worker(workerFile('migrate'), { workerData: place, name: 'migration' });
  let report: MigrationReport | undefined;
  worker.on('message', (message: MigrationReport) => {
    report = message;
  });
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => {
    late.reject(new Error(`the migration did not end within ${TIME_LIMIT_MS / 1000} s`));
  }, TIME_LIMIT_MS);
  const [code] = await Promise.race([once(worker, 'exit'), late.promise]).finally(() => clearTimeout(timer));
  if (report !== undefined && 'failure' in report) throw new Error(report.failure);
  if (code !== 0) throw new Error(`the migration ended with exit code ${code}`);
  return report?.created ?? [];
}
