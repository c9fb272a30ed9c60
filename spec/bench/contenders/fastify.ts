/** Fastify that parses a submission and answers as the product does, and keeps nothing. */
import { randomUUID } from 'node:crypto';
import type { AddressInfo } from 'node:net';
import fastify from 'fastify';
import { apiHeaders } from '../../../main/http/json-reply.ts';
import type { Task } from './task-row.ts';

/** Serves submissions, which `accept` takes, and the counts of the queue. */
export async function serveTasks(accept: (task: Task) => unknown = () => {}, counts = () => ({})): Promise<void> {
  const app = fastify();
  app.addContentTypeParser('*', { parseAs: 'string' }, (_, body, done) => done(null, JSON.parse(body as string)));
  app.post('/tasks', async (request, reply) => {
    const { action, data = {} } = request.body as Partial<Task>;
    reply.headers(apiHeaders);
    if (typeof action !== 'string') return reply.code(400).send({ error: 'action required' });
    const id = randomUUID();
    await accept({ id, action, data, created_at: Math.floor(Date.now() / 1000) });
    return reply.code(202).header('Location', `/tasks/${id}`).send({ id, status: 'queued' });
  });
  app.get('/queue', async () => counts());
  await app.listen({ port: 0, host: '127.0.0.1' });
  console.log(JSON.stringify({ port: (app.server.address() as AddressInfo).port }));
}

if (import.meta.main) await serveTasks();
