import type { TaskStore } from '../../db/task-store.ts';
import type { MainToMaintenance, MaintenanceToMain } from '../../workers/maintenance/messages.ts';
import type { Clock } from '../../workers/shared/clock.ts';
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

export interface RetentionOptions {
  store: Pick<TaskStore, 'deleteOldRows'>;
  /** Number of newest rows to keep. 0 for no limit. */
  rows: number;
  /** Number of days to keep a row after its task has completed. 0 for no limit. */
  days: number;
  clock: Clock;
  log: Log;
}

const SECONDS_PER_DAY = 86_400;
/** Ratio of a pause to the duration of the preceding step. Leaves two thirds of the time to other writes. */
const STEP_PAUSE_RATIO = 2;
const PASS_PAUSE_MS = 1000;
/** Minimum ratio of the pause after a pass to its last search for old rows, so that an idle loop takes 5 % of the time. */
const PASS_PAUSE_RATIO = 20;
const FAILED_PAUSE_MS = 15_000;

/** Deletes task rows beyond the limits, if there are any, in small steps. `stop` waits for a running step. */
export function startRetention(options: RetentionOptions): { stop(): Promise<void> } {
  const stopped = new AbortController();
  const isLimited = options.rows > 0 || options.days > 0;
  const ended = isLimited ? deleteUntil(stopped.signal, options) : undefined;
  return {
    async stop() {
      stopped.abort();
      await ended;
    },
  };
}

async function deleteUntil(stopped: AbortSignal, options: RetentionOptions): Promise<void> {
  while (!stopped.aborted) await options.clock.sleep(await deleteStep(options), stopped);
}

async function deleteStep({ store, rows, days, clock, log }: RetentionOptions): Promise<number> {
  const startedAt = clock.elapsed();
  const before = days === 0 ? undefined : Math.floor(clock.now() / 1000) - days * SECONDS_PER_DAY;
  try {
    const isUnfinished = await store.deleteOldRows({ before, rows: rows === 0 ? undefined : rows });
    const stepMs = clock.elapsed() - startedAt;
    return isUnfinished ? stepMs * STEP_PAUSE_RATIO : Math.max(PASS_PAUSE_MS, stepMs * PASS_PAUSE_RATIO);
  } catch (error) {
    log.error({ err: error, delayMs: FAILED_PAUSE_MS }, 'old rows cannot be deleted: retrying');
    return FAILED_PAUSE_MS;
  }
}
