import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { workerFile } from './worker-file.ts';

/**
 * Runs the one-shot migration in a thread of its own, and waits for its end.
 *
 * @throws {Error} whose message says why, when its exit code is not 0
 */
export async function runMigration(dataDir: string): Promise<void> {
  const worker = new Worker(workerFile('migrate'), { workerData: { dataDir }, name: 'migration' });
  let reason: string | undefined;
  worker.on('message', (message: string) => {
    reason = message;
  });
  const [code] = await once(worker, 'exit');
  if (code !== 0) throw new Error(reason ?? `the migration ended with exit code ${code}`);
}
