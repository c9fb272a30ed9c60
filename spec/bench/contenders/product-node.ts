/** One of several nodes: adds its share of the tasks, and works off what it gets. Tells how many are done on all of them. */
import { randomUUID } from 'node:crypto';
import { loadConfig } from '../../../main/config.ts';
import { createLog } from '../../../main/log.ts';
import { openBackend } from '../../../main/open-backend.ts';
import { Dispatcher } from '../../../main/tasks/dispatch/dispatcher.ts';
import { startPool } from '../../../main/tasks/pool/start-pool.ts';

const share = Number(process.argv[2]);
const config = loadConfig(process.env);
const { log } = await createLog({ level: 'error', format: 'json' });
const engine = await openBackend(config, log);
let done = 0;
const { queue } = await engine.openQueue(({ event }) => {
  if (event === 'completed') done += 1;
});
const pool = await startPool(config.tasks, engine.taskStoreLocation, log);
const dispatcher = new Dispatcher({ queue, pool, prefetch: config.tasks.prefetch, log });
console.log(JSON.stringify({ ready: true }));
process.stdin.once('data', async () => {
  dispatcher.start();
  setInterval(() => console.log(JSON.stringify({ doneByAll: done })), 50);
  let begun = 0;
  const add = async () => {
    while (begun++ < share) {
      const id = randomUUID();
      const created_at = Math.floor(Date.now() / 1000);
      const message = { id, action: 'uppercase', data: { text: 'hello world' }, created_at };
      await queue.publish({ id, body: JSON.stringify(message) });
    }
  };
  await Promise.all(Array.from({ length: 32 }, add));
});
