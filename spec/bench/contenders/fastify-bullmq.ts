/** A typical stack in one process: Fastify, a BullMQ queue with its worker, and a row per task in SQLite. */
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { Queue, Worker } from 'bullmq';
import { migrate } from '../../../db/sqlite/migrate.ts';
import { serveTasks } from './fastify.ts';
import { COLUMNS, processTask } from './task-row.ts';

const connection = { host: '127.0.0.1', port: Number(process.argv[2]) };
const dataDir = process.env.DATA_DIR;
// The product's table, so that a row costs the same indexes.
migrate(dataDir);
const database = new DatabaseSync(join(dataDir, 'tasks.db'));
database.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL');
const insert = database.prepare(`INSERT INTO tasks (${COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)`);

const queue = new Queue('tasks', { connection, defaultJobOptions: { removeOnComplete: true } });
const store = async ({ data }) => void insert.run(...processTask(data));
const worker = new Worker(queue.name, store, { connection, concurrency: 5 });
const counts = { accepted: 0, completed: 0 };
worker.on('completed', () => {
  counts.completed += 1;
});
await Promise.all([queue.waitUntilReady(), worker.waitUntilReady()]);
const accept = async (task) => {
  await queue.add(task.action, task);
  counts.accepted += 1;
};
await serveTasks(accept, () => counts);
