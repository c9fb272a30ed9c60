import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import type { CreatedDatabase } from '../../db/sqlite/migrate.ts';
import type { MigrationStart } from '../../workers/maintenance/messages.ts';
import { threadFile } from './supervised-thread.ts';

/** Migrates the databases in a worker thread. Returns the created database files (none for PostgreSQL). */
export async function runMigration(location: MigrationStart): Promise<CreatedDatabase[]> {
  // Ended before the caller unlocks the data folder.
  await using worker = new Worker(threadFile('maintenance/migrate'), { workerData: location, name: 'migration' });
  let created: CreatedDatabase[] = [];
  worker.on('message', (files: CreatedDatabase[]) => {
    created = files;
  });
  // Rejects with the error of the thread.
  const [code] = await once(worker, 'exit');
  if (code !== 0) throw new Error(`the migration ended with exit code ${code}`);
  return created;
}
