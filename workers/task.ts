/** A pool thread: computes a task's result and stores its row, so that the row is there before the ack. */
import { join } from 'node:path';
import { workerData } from 'node:worker_threads';
import { Database } from '../db/database.ts';
import { Tasks } from '../db/tasks.ts';
import { perform } from './actions.ts';
import { poolFunction, type TaskHandler } from './task-handler.ts';

/** Long enough to wait out the other thread's writes, short enough to find a stuck lock. */
const BUSY_TIMEOUT_MS = 2000;

const { dataDir } = workerData as { dataDir: string };
const tasks = new Tasks(new Database(join(dataDir, 'tasks.db'), { busyTimeoutMs: BUSY_TIMEOUT_MS }));

const store: TaskHandler = (body, { arrival }) => {
  const { id, action, data, created_at } = JSON.parse(body);
  const result = JSON.stringify({ output: perform(action, data) });
  const processed_at = Math.floor(Date.now() / 1000);
  tasks.store({ id, payload: body, status: 'completed', result, created_at, processed_at }, arrival);
};

export default poolFunction(store);
