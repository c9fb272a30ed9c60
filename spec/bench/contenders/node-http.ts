/** Bare `node:http` that parses a submission and answers as the product does, and keeps nothing. */
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { apiHeaders } from '../../../main/http/json-reply.ts';
import { tellPort } from './prices.ts';

const server = createServer((request, response) => {
  const chunks: Buffer[] = [];
  request.on('data', (chunk) => chunks.push(chunk));
  request.on('end', () => {
    const { action } = JSON.parse(Buffer.concat(chunks).toString());
    const id = randomUUID();
    const accepted = typeof action === 'string';
    const text = JSON.stringify(accepted ? { id, status: 'queued' } : { error: 'action required' });
    response.writeHead(accepted ? 202 : 400, {
      ...apiHeaders,
      ...(accepted && { Location: `/tasks/${id}` }),
      'Content-Type': 'application/json; charset=utf-8',
      'Content-Length': Buffer.byteLength(text),
    });
    response.end(text);
  });
});
tellPort(server);
