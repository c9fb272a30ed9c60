import type { Delivery } from '../../../db/task-store.ts';
import { loadConfig } from '../../../main/config.ts';
import type { Outcome } from '../../../main/tasks/pool/run.ts';
import { ThreadPool } from '../../../main/tasks/pool/thread-pool.ts';
import { type Clock, systemClock } from '../../../workers/shared/clock.ts';
import { afterTest } from '../../support/cleanup.ts';
import { captureLog } from '../../support/log.ts';
import { newDelivery } from '../handlers/handling.ts';

export const threadFile = (name: string) => new URL(`threads/${name}.ts`, import.meta.url);

/** Starts a pool of one thread without a handlers module. */
export async function startBuiltIns(env: Record<string, string> = {}, clock: Clock = systemClock, file = 'built-in') {
  const { tasks } = loadConfig({ TASK_CONCURRENCY: '1', ...env });
  const { log, lines } = captureLog();
  const parts = { actions: new Map(), clock, log };
  const pool = await ThreadPool.start(tasks, parts, threadFile(file));
  afterTest(() => pool.stop(Promise.resolve()));
  /** Ids of started tasks, in order. */
  const started: string[] = [];
  const run = (id: string, action: string, data: object = {}, about: Partial<Delivery> = {}): Promise<Outcome> =>
    pool.run(newDelivery(id, action, data, about), {
      onStart: () => started.push(id),
      onAcknowledged() {},
      onProgress() {},
    });
  return { pool, run, started, lines };
}
