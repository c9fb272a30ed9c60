import { NO_ATTEMPTS } from '../../../db/attempt-history.ts';
import type { Delivery, TaskProgress } from '../../../db/task-store.ts';
import { loadConfig } from '../../../main/config.ts';
import type { Outcome } from '../../../main/tasks/pool/run.ts';
import { ThreadPool } from '../../../main/tasks/pool/thread-pool.ts';
import { checkHandlers } from '../../../main/threads/one-shot-threads.ts';
import { type Clock, systemClock } from '../../../workers/shared/clock.ts';
import { afterTest, temporaryFile } from '../../support/cleanup.ts';
import { captureLog } from '../../support/log.ts';

const api = JSON.stringify(new URL('../../../workers/tasks/handlers-api.ts', import.meta.url).href);

const imports = `import { PermanentError, RetryAfter } from ${api}; import { workerData } from 'node:worker_threads'; \
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms)); \
const aborted = (signal) => new Promise((resolve) => signal.addEventListener('abort', resolve));`;

/** Writes a handlers module that can use the names in `imports`. Returns its path. */
export function writeHandlers(source: string, name = 'handlers.ts'): Promise<string> {
  return temporaryFile(name, `${imports}\n${source}`);
}

export function newDelivery(id: string, action: string, data: object = {}, about: Partial<Delivery> = {}): Delivery {
  const body = `{"id":"${id}","action":${JSON.stringify(action)},"data":${JSON.stringify(data)},"created_at":5}`;
  const first = { arrival: 1, delivery: 1, dueAt: 0, attempt: 1, crashes: 0, history: NO_ATTEMPTS };
  return { id, action: action.slice(0, 256), body, ...first, isRated: false, isSuspect: false, ...about };
}

/** Starts a pool of one thread with a handlers module, whose default export is `{ <handlers> }`. */
export async function startHandlers(handlers: string, env: Record<string, string> = {}, clock?: Clock) {
  return startPool({ TASK_HANDLERS: await writeHandlers(`export default {${handlers}};`), ...env }, clock);
}

/** Starts a pool of one thread. @param file the code of the thread, instead of the product's */
export async function startPool(env: Record<string, string>, clock: Clock = systemClock, file?: URL) {
  const { tasks } = loadConfig({ TASK_CONCURRENCY: '1', TASK_CANCEL_GRACE_MS: '50', ...env });
  const captured = captureLog();
  const parts = { ...(await checkHandlers(tasks)), clock, log: captured.log };
  const pool = await ThreadPool.start(tasks, parts, file);
  afterTest(() => pool.stop(Promise.resolve()));
  const reports: (TaskProgress & { id: string })[] = [];
  /** Arguments of the calls of all listeners, by task and event. */
  const told: string[] = [];
  const deliveries: Delivery[] = [];
  let output: string | undefined;
  /** Runs a task. Its outcome has neither the output, nor the stack of what was thrown. */
  const run = async (action: string, data: object = {}, about: Partial<Delivery> = {}): Promise<Outcome> => {
    const id = String(deliveries.length + 1);
    const delivery = newDelivery(id, action, data, about);
    deliveries.push(delivery);
    const outcome = await pool.run(delivery, {
      onStart: () => told.push(`${id} started`),
      onAcknowledged: (how) => told.push(`${id} ${how}`),
      onProgress: (progress) => reports.push({ id, ...progress }),
    });
    told.push(`${id} ended`);
    if (outcome.ended === 'raised') {
      const { stack: _, ...others } = outcome;
      return others;
    }
    if (outcome.ended !== 'returned') return outcome;
    output = outcome.output;
    return returned;
  };
  return {
    ...captured,
    ...{ pool, run, reports, told },
    starts: () => told.flatMap((event) => /^\d+(?= started$)/.exec(event) ?? []),
    /** Cancels a task, by default the last one. Returns whether it was withdrawn. */
    cancel: (id = deliveries.length) => pool.cancel(deliveries[id - 1] as Delivery),
    output: () => output && JSON.parse(output),
  };
}

export const returned = { ended: 'returned' } as Outcome;

export const failed = (reason: string, permanent = false): Outcome => ({ ended: 'raised', reason, permanent });
