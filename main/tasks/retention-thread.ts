import type { RetentionStart } from '../../workers/messages.ts';
import type { Log } from '../log.ts';
import { SupervisedWorker } from '../supervised-worker.ts';
import { workerFile } from '../worker-file.ts';

/** Starts the thread that deletes old task rows. `stop` terminates the thread and rolls back its open transaction. */
export function startRetentionThread({
  log,
  file = workerFile('retention'),
  ...start
}: RetentionStart & { log: Log; file?: URL }): Pick<SupervisedWorker<never, never>, 'stop'> {
  const thread = new SupervisedWorker<never, never>({
    name: 'retention',
    file,
    workerData: () => start satisfies RetentionStart,
    restartDelaysMs: [1000, 5000, 15_000, 60_000],
    stableAfterMs: 120_000,
    log,
  });
  thread.start();
  return thread;
}
