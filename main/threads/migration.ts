import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import type { CreatedDatabase } from '../../db/sqlite/migrate.ts';
import type { MigrationReport, MigrationStart } from '../../workers/maintenance/messages.ts';
import { threadFile } from './supervised-thread.ts';

/** Maximum time until the migration begins. The migration itself may take long, depending on the number of rows. */
const TIME_LIMIT_MS = 60_000;

/** Migrates the databases in a worker thread. Returns the created database files (none for PostgreSQL). */
export async function runMigration(location: MigrationStart): Promise<CreatedDatabase[]> {
  // Ended before the caller unlocks the data folder.
  await using worker = new Worker(threadFile('maintenance/migrate'), { workerData: location, name: 'migration' });
  const timeout = new AbortController();
  using timer = setTimeout(() => timeout.abort(), TIME_LIMIT_MS);
  let created: CreatedDatabase[] = [];
  worker.on('message', (report: MigrationReport) => {
    if ('created' in report) created = report.created;
    clearTimeout(timer);
  });
  // `once` no longer listens after the time limit, and an error without a listener would end the process.
  worker.on('error', () => {});
  try {
    // Rejects with the error of the thread.
    const [code] = await once(worker, 'exit', { signal: timeout.signal });
    if (code !== 0) throw new Error(`the migration ended with exit code ${code}`);
    return created;
  } catch (error) {
    throw timeout.signal.aborted ? new Error(`the migration did not start within ${TIME_LIMIT_MS / 1000} s`) : error;
  }
}
