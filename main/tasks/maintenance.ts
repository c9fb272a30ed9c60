import type { MainToMaintenance, MaintenanceToMain } from '../../workers/maintenance/messages.ts';
import type { Log } from '../log/log.ts';
import { SupervisedThread, threadFile } from '../threads/supervised-thread.ts';

interface MaintenanceOptions {
  dataDir: string;
  /** Holds the writes of `tasks.db` back. Must not let one continue after it returns. */
  hold: () => void;
  resume: () => void;
  log: Log;
  file?: URL;
}

/** Creates the thread that checkpoints `tasks.db`, whose log grows without limit otherwise, and counts its rows. */
export function createMaintenance({ dataDir, hold, resume, log, file }: MaintenanceOptions) {
  /** Request that has no answer yet. A restarted thread gets it again. */
  let count: (PromiseWithResolvers<number> & { rows: number }) | undefined;
  let isStopped = false;
  const askForCount = () => count && thread.post({ topic: 'countExcess', rows: count.rows });
  const thread: SupervisedThread<MainToMaintenance, MaintenanceToMain> = new SupervisedThread({
    name: 'maintenance',
    file: file ?? threadFile('maintenance/maintenance'),
    workerData: () => ({ dataDir }),
    onMessage(message) {
      if (message.topic === 'hold') {
        hold();
        thread.post({ topic: 'held' });
      } else if (message.topic === 'resume') resume();
      else {
        count?.resolve(message.excess);
        count = undefined;
      }
    },
    onSpawn: askForCount,
    // The thread may have ended between `hold` and `resume`.
    onExit: resume,
    log,
  });
  return {
    start: () => void thread.start(),
    /** Returns the number of task rows beyond the newest `rows`, or 0 after a stop. Must not be called again meanwhile. */
    async excessRows(rows: number): Promise<number> {
      if (isStopped) return 0;
      count = { rows, ...Promise.withResolvers<number>() };
      askForCount();
      return count.promise;
    },
    async stop(): Promise<void> {
      isStopped = true;
      count?.resolve(0);
      await thread.stop();
    },
  };
}
