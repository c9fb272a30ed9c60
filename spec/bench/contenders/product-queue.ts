/** The product's queue without HTTP: the same as BullMQ's contender does, and every result is stored as a row. */
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { Database } from '../../../db/sqlite/database.ts';
import { migrate } from '../../../db/sqlite/migrate.ts';
import { loadConfig } from '../../../main/config.ts';
import { checkHandlers } from '../../../main/handlers-check.ts';
import { createLog } from '../../../main/log.ts';
import { Dispatcher } from '../../../main/tasks/dispatch/dispatcher.ts';
import { startPool } from '../../../main/tasks/pool/start-pool.ts';
import { openQueue } from '../../../main/tasks/queue/open.ts';

const count = Number(process.argv[2]);
const { storage, queue: queueSettings, tasks } = loadConfig(process.env);
const { dataDir } = storage;
migrate(dataDir);
const { log } = await createLog({ level: 'error', format: 'json' });
const { queue, close } = openQueue(queueSettings, dataDir, log);
const actions = await checkHandlers(tasks);
const pool = await startPool(tasks, { dataDir }, log, { actions });
const dispatcher = new Dispatcher({ queue, pool, prefetch: tasks.prefetch, actions, log });
let begun = 0;
const add = async () => {
  while (begun++ < count) {
    const id = randomUUID();
    const message = {
      id,
      action: 'uppercase',
      data: { text: 'hello world' },
      created_at: Math.floor(Date.now() / 1000),
    };
    await queue.publish({ id, body: JSON.stringify(message) });
  }
};
const submitting = performance.now();
await Promise.all(Array.from({ length: 32 }, add));
const working = performance.now();
const cpuBefore = process.cpuUsage();
dispatcher.start();
await dispatcher.drain(new Promise<void>(() => {}));
const end = performance.now();
const { user, system } = process.cpuUsage(cpuBefore);
const database = new Database(join(dataDir, 'tasks.db'), { busyTimeoutMs: 1000 });
const rows = database.statement('SELECT count(*) AS n FROM tasks').get();
if (rows?.n !== count) throw new Error(`${rows?.n} rows of ${count} were stored`);
const perSecond = (from: number, to: number) => count / ((to - from) / 1000);
console.log(
  JSON.stringify({
    submitted: perSecond(submitting, working),
    worked: perSecond(working, end),
    both: perSecond(submitting, end),
    cpu: (user + system) / count,
  }),
);
database.close();
await dispatcher.stop(Promise.resolve());
await close();
