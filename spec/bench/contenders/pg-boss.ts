/** pg-boss, one of several processes. It fetches 5 tasks at a time and stores a row for each. */
import { Pool } from 'pg';
import { PgBoss } from 'pg-boss';
import { migratePostgres } from '../../../db/postgres/migrate.ts';
import { countProcessed, POSTGRES_INSERT, processTask, takeSteps } from './run-queue.ts';

const connectionString = process.env.DATABASE_URL;
await migratePostgres(connectionString);
const rows = new Pool({ connectionString });
// With the default of 10 connections, each fetch waits for the tasks that are being added.
const boss = new PgBoss({ connectionString, max: 40 });
boss.on('error', console.error);
await boss.start();
await boss.createQueue('uppercase');
// The shortest interval that is allowed. LISTEN/NOTIFY would replace it, but slows down adding.
const options = { batchSize: 5, burstWhenBatchFull: true, pollingIntervalSeconds: 0.5 };
const store = async ({ data }) => {
  await rows.query(POSTGRES_INSERT, processTask(data));
  countProcessed();
};
takeSteps({
  startWorker: () => boss.work('uppercase', options, (jobs) => Promise.all(jobs.map(store))),
  add: (task) => boss.send('uppercase', task),
});
