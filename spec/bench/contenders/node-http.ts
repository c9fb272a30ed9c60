/** Bare `node:http` that parses a submission and answers as the product does, and keeps nothing. */
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

const server = createServer((request, response) => {
  const chunks: Buffer[] = [];
  request.on('data', (chunk) => chunks.push(chunk));
  request.on('end', () => {
    const { action } = JSON.parse(Buffer.concat(chunks).toString());
    const text = JSON.stringify(
      typeof action === 'string' ? { id: randomUUID(), status: 'queued' } : { error: 'action required' },
    );
    response.writeHead(typeof action === 'string' ? 202 : 400, {
      'Content-Type': 'application/json; charset=utf-8',
      'Content-Length': Buffer.byteLength(text),
    });
    response.end(text);
  });
});
server.listen(0, '127.0.0.1', () => console.log(JSON.stringify({ port: (server.address() as AddressInfo).port })));
