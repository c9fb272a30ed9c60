import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { migrate } from '../../../db/sqlite/migrate.ts';
import { loadConfig } from '../../../main/config.ts';
import { checkHandlers } from '../../../main/handlers-check.ts';
import { startPool } from '../../../main/tasks/pool/start-pool.ts';
import type { Outcome } from '../../../main/tasks/pool/worker-pool.ts';
import type { Delivery } from '../../../main/tasks/queue/queue.ts';
import type { TaskProgress } from '../../../workers/messages.ts';
import { afterTest, temporaryFolder } from '../../support/cleanup.ts';
import { captureLog } from '../../support/log.ts';

const api = new URL('../../../workers/handlers-api.ts', import.meta.url).href;

/** Writes a handlers module that can use `PermanentError` and `RetryAfter`. Returns its path. */
export async function writeHandlers(source: string, name = 'handlers.ts'): Promise<string> {
  const file = join(await temporaryFolder(), name);
  await writeFile(file, `import { PermanentError, RetryAfter } from ${JSON.stringify(api)};\n${source}`);
  return file;
}

/** Starts a pool of one thread with a handlers module, whose default export is `{ <handlers> }`. */
export async function startHandlers(handlers: string, env: Record<string, string> = {}) {
  const dataDir = await temporaryFolder();
  migrate(dataDir);
  const module = await writeHandlers(`export default {${handlers}};`);
  const { tasks } = loadConfig({ TASK_CONCURRENCY: '1', TASK_CANCEL_GRACE_MS: '50', ...env });
  const settings = { ...tasks, handlers: module };
  const actions = await checkHandlers(settings);
  const captured = captureLog();
  const reports: (TaskProgress & { id: string })[] = [];
  const pool = await startPool(settings, { dataDir }, captured.log, {
    actions,
    onProgress: ({ message: { id } }, progress) => reports.push({ id, ...progress }),
  });
  afterTest(() => pool.stop(Promise.resolve()));
  const database = new DatabaseSync(join(dataDir, 'tasks.db'));
  afterTest(() => database.close());
  let sequence = 0;
  let newest: Delivery | undefined;
  const run = (action: string, data: object = {}, about: Partial<Delivery> = {}): Promise<Outcome> => {
    const id = String(++sequence);
    const message = { id, body: JSON.stringify({ id, action, data, created_at: 5 }) };
    const delivery = { message, sequence, acceptedAt: 0, attempt: 1, crashes: 0, suspect: false, ...about };
    newest = delivery;
    return pool.run(delivery, async () => {});
  };
  /** Cancels the task that was started last. Returns whether it was withdrawn. */
  const cancel = () => pool.cancel(newest as Delivery);
  /** Returns the number of stored rows. */
  const rows = () => database.prepare('SELECT count(*) AS count FROM tasks').get()?.count;
  /** Returns the output of the task that was started last. */
  const output = () => {
    const row = database.prepare('SELECT result FROM tasks WHERE id = ?').get(String(sequence));
    return JSON.parse(String(row?.result)).output;
  };
  return { ...captured, pool, run, cancel, rows, output, reports, module };
}

export const returned: Outcome = { ended: 'returned' };

/** Returns the outcome of an attempt that failed and may be retried. */
export function failed(reason: string): Outcome {
  return { ended: 'raised', reason, permanent: false };
}

/** Returns the outcome of an attempt that failed for good. */
export function failedForGood(reason: string): Outcome {
  return { ended: 'raised', reason, permanent: true };
}
