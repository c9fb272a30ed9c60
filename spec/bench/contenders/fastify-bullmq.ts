/** A typical stack in one process: Fastify, a BullMQ queue with its worker, and a row per task in SQLite. */
import { randomUUID } from 'node:crypto';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { Queue, Worker } from 'bullmq';
import fastify from 'fastify';
import { migrate } from '../../../db/sqlite/migrate.ts';
import { apiHeaders } from '../../../main/http/json-reply.ts';
import { COLUMNS, processTask, type Task } from './run-queue.ts';

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
worker.on('completed', () => counts.completed++);
await Promise.all([queue.waitUntilReady(), worker.waitUntilReady()]);
const app = fastify();
app.addContentTypeParser('*', { parseAs: 'string' }, (_, body, done) => done(null, JSON.parse(body as string)));
app.post('/tasks', async (request, reply) => {
  const { action, data = {} } = request.body as Partial<Task>;
  reply.headers(apiHeaders);
  if (typeof action !== 'string') return reply.code(400).send({ error: 'action required' });
  const id = randomUUID();
  await queue.add(action, { id, action, data, created_at: Math.floor(Date.now() / 1000) });
  counts.accepted += 1;
  return reply.code(202).header('Location', `/tasks/${id}`).send({ id, status: 'queued' });
});
app.get('/queue', async () => counts);
await app.listen({ port: 0, host: '127.0.0.1' });
console.log(JSON.stringify({ port: (app.server.address() as AddressInfo).port }));
