/** The product's queue without HTTP, from the same parts as the service. It stores a row for each task. */
import { openBackend } from '../../../main/backends/backend.ts';
import { loadConfig } from '../../../main/config.ts';
import { createLog } from '../../../main/log/log.ts';
import { Dispatcher } from '../../../main/tasks/dispatch/dispatcher.ts';
import { ThreadPool } from '../../../main/tasks/pool/thread-pool.ts';
import { Queue } from '../../../main/tasks/queue.ts';
import { taskIds } from '../../../main/tasks/task-ids.ts';
import { checkHandlers } from '../../../main/threads/module-checks.ts';
import { systemClock as clock, systemRandom as random } from '../../../workers/shared/clock.ts';
import { takeSteps } from './run-queue.ts';

const config = loadConfig(process.env);
const { log } = await createLog({ level: 'error', format: 'json' });
const backend = await openBackend(config, clock, random, log);
const queue = await Queue.open({ store: backend.store, bus: backend.bus, onEvent: () => {}, clock });
const actions = await checkHandlers(config.tasks);
const pool = await ThreadPool.start(config.tasks, { actions, clock, log });
const newTaskId = taskIds(random);
const { prefetch } = config.tasks;
const dispatcher = new Dispatcher({ queue, pool, prefetch, actions, clock, random, log });
await backend.store.start();
backend.startMaintenance();
takeSteps({
  startWorker: () => dispatcher.start(),
  /** Submits a task as the service does, under an id of the product. */
  async add({ action, data, created_at }) {
    const id = newTaskId();
    await queue.publish({ id, action, body: JSON.stringify({ id, action, data, created_at }) });
  },
  processed: () => dispatcher.metrics.completed,
});
