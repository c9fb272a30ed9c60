/** The product's queue without HTTP, from the same parts as the service. It stores a row for each task. */
import type { Message } from '../../../db/task-store.ts';
import { openBackend } from '../../../main/backends/backend.ts';
import { loadConfig } from '../../../main/config.ts';
import { createLog } from '../../../main/log/log.ts';
import { CallbackSender } from '../../../main/tasks/callbacks/callback-sender.ts';
import { Dispatcher } from '../../../main/tasks/dispatch/dispatcher.ts';
import { taskIds } from '../../../main/tasks/http/prepare-submission.ts';
import { ThreadPool } from '../../../main/tasks/pool/thread-pool.ts';
import { Queue } from '../../../main/tasks/queue.ts';
import { checkHandlers } from '../../../main/threads/one-shot-threads.ts';
import { systemClock as clock, systemRandom as random } from '../../../workers/shared/clock.ts';
import { dueAt, shape, type Task, takeSteps } from './run-queue.ts';

const config = loadConfig(process.env);
const { log } = await createLog({ level: 'error', format: 'json' });
const backend = await openBackend(config, clock, random, log);
const queue = await Queue.open({ store: backend.store, bus: backend.bus, onEvent: () => {}, clock });
const { actions } = await checkHandlers(config.tasks);
const pool = await ThreadPool.start(config.tasks, { actions, clock, log });
const newTaskId = taskIds(random);
const { prefetch } = config.tasks;
const callbacks = new CallbackSender({ hosts: [], secrets: [], find: (id) => queue.find(id), clock, random });
const dispatcher = new Dispatcher({ queue, pool, callbacks, prefetch, actions, clock, random, log });
await backend.store.start();
if (shape === 'limits') await backend.store.setLimits('uppercase', { perKey: { concurrency: 1 } }, 'api');
const LIMIT_KEYS = 10_000;
let added = 0;
backend.startMaintenance();
takeSteps({
  startWorker: () => dispatcher.start(),
  add: (task) => queue.publish(messageOf(task)),
  addAll: (tasks) => queue.publishAll(tasks.map((task) => ({ message: messageOf(task), key: undefined }))),
  processed: () => dispatcher.metrics.completed,
});

/** Returns the message of a task as the service makes it, under an id of the product. */
function messageOf({ action, data, created_at }: Task): Message {
  const id = newTaskId();
  added += 1;
  return {
    ...{ id, action, body: JSON.stringify({ id, action, data, created_at }) },
    ...((shape === 'keys' || shape === 'limits') && { limitKey: `key ${added % LIMIT_KEYS}` }),
    ...(dueAt > 0 && { runAt: dueAt }),
  };
}
