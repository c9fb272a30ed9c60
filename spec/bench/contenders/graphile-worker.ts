/** graphile-worker, one of several processes, at a concurrency of 5. Its task stores a row with a query of its own. */
import { Logger, makeWorkerUtils, run } from 'graphile-worker';
import { migratePostgres } from '../../../db/postgres/migrate.ts';
import { countProcessed, POSTGRES_INSERT, processTask, takeSteps } from './run-queue.ts';

const connectionString = process.env.DATABASE_URL;
await migratePostgres(connectionString);
// Standard output carries the counts.
const logger = new Logger(() => (level, message) => {
  if (level === 'error' || level === 'warning') console.error(message);
});
// As many connections as the tasks that are added at once need, and some for the worker.
const options = { connectionString, logger, maxPoolSize: 40 };
const utils = await makeWorkerUtils(options);
await utils.migrate();
const taskList = {
  async uppercase(task, { query }) {
    await query(POSTGRES_INSERT, processTask(task));
    countProcessed();
  },
};
// The batching that its documentation recommends for throughput: one job more than its concurrency.
const preset = { worker: { localQueue: { size: 6 }, completeJobBatchDelay: 0 } };
takeSteps({
  startWorker: () => run({ ...options, concurrency: 5, noHandleSignals: true, taskList, preset }),
  add: (task) => utils.addJob('uppercase', task),
});
