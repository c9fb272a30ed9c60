import type { RetentionStart } from '../../workers/messages.ts';
import type { Log } from '../log.ts';
import { SupervisedWorker } from '../supervised-worker.ts';
import { workerFile } from '../worker-file.ts';

/** Starts the thread that deletes old task rows. `stop` terminates the thread, which rolls back its open transaction. */
export function startRetentionThread({
  log,
  file = workerFile('retention'),
  ...start
}: RetentionStart & { log: Log; file?: URL }): Pick<SupervisedWorker<never, never>, 'stop'> {
  const thread = new SupervisedWorker<never, never>({
    name: 'retention',
    file,
    workerData: () => start satisfies RetentionStart,
    // The delays are long, because retention is not urgent and the thread usually dies because the database is unavailable.
    restartDelaysMs: [1000, 5000, 15_000, 60_000],
    stableAfterMs: 120_000,
    onExit: (threadId) => releaseWriteLock(start.writeLock, threadId),
    log,
  });
  thread.start();
  return thread;
}

/** Releases the write lock if the dead thread `threadId` holds it. Otherwise every write would wait for the lock's timeout. */
function releaseWriteLock(writeLock: SharedArrayBuffer, threadId: number): void {
  const cell = new Int32Array(writeLock);
  if (Atomics.compareExchange(cell, 0, threadId, 0) === threadId) Atomics.notify(cell, 0, 1);
}
