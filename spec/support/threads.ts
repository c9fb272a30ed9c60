import type { Worker } from 'node:worker_threads';
import { afterTest } from './cleanup.ts';

/** Collects the threads that start from now on, and counts the ended ones. */
export function watchThreads() {
  const watched = { threads: [] as Worker[], ended: 0 };
  const remember = (thread: Worker) => {
    watched.threads.push(thread);
    thread.once('exit', () => watched.ended++);
  };
  process.on('worker', remember);
  afterTest(() => process.off('worker', remember));
  return watched;
}
