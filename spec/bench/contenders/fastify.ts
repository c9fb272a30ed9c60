/** Fastify that parses a submission and answers as the product does, and keeps nothing. */
import { randomUUID } from 'node:crypto';
import type { AddressInfo } from 'node:net';
import fastify from 'fastify';
import { apiHeaders } from '../../../main/http/json-reply.ts';

const app = fastify();
app.addContentTypeParser('*', { parseAs: 'string' }, (_request, body, done) => done(null, JSON.parse(body as string)));
app.post('/tasks', async (request, reply) => {
  const { action } = request.body as { action?: unknown };
  reply.headers(apiHeaders);
  if (typeof action !== 'string') return reply.code(400).send({ error: 'action required' });
  const id = randomUUID();
  return reply.code(202).header('Location', `/tasks/${id}`).send({ id, status: 'queued' });
});
await app.listen({ port: 0, host: '127.0.0.1' });
console.log(JSON.stringify({ port: (app.server.address() as AddressInfo).port }));
