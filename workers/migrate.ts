/**
 * The one-shot migration: creates what is missing and ends with exit code 0, or says in one line why it
 * cannot and ends with 1. A worker thread at every start; a program of its own for `npm run migrate`.
 */
import { isMainThread, parentPort, workerData } from 'node:worker_threads';
import { migrate } from '../db/migrate.ts';

const dataDir = isMainThread ? process.env.DATA_DIR || 'data' : (workerData as { dataDir: string }).dataDir;
try {
  migrate(dataDir);
  if (isMainThread) console.log(`the databases in ${dataDir} are up to date`);
} catch (error) {
  const { message } = error as Error;
  if (isMainThread) console.error(message);
  else parentPort?.postMessage(message);
  process.exitCode = 1;
}
