import { createServer, type OutgoingHttpHeaders, request } from 'node:http';
import { connect, type Socket } from 'node:net';
import { listenLocally } from '../support/free-port.ts';

/** A response in place of the service's; or the service's response, lost or held back. */
type Fault = { status: number; headers?: OutgoingHttpHeaders } | 'lost' | 'buffered';

export async function faultyProxy(service: string) {
  const { hostname, port } = new URL(service);
  const faults = new Map<string, Fault[]>();
  const requests: string[] = [];
  const sockets = new Set<Socket>();
  const server = createServer((near, answer) => {
    const { method, url: path = '', headers } = near;
    requests.push(`${method} ${path}`);
    const fault = faults.get(path)?.shift();
    if (typeof fault === 'object') {
      answer.writeHead(fault.status, fault.headers).end('{"error": "made up"}');
      return;
    }
    const far = request({ hostname, port, method, path, headers, agent: false }, (response) => {
      if (fault === 'lost') answer.destroy();
      if (fault === undefined) answer.writeHead(response.statusCode ?? 0, response.headers).flushHeaders();
      if (fault === undefined) response.pipe(answer).once('error', () => {});
    });
    far.once('error', () => answer.destroy());
    answer.once('close', () => far.destroy());
    near.pipe(far);
  });
  server.on('connection', (socket) => sockets.add(socket.on('error', () => {})));
  server.on('upgrade', ({ method, url, rawHeaders }, near: Socket) => {
    const far = connect(Number(port), hostname).on('error', () => {});
    far.write(`${method} ${url} HTTP/1.1\r\n`);
    for (let at = 0; at < rawHeaders.length; at += 2) far.write(`${rawHeaders[at]}: ${rawHeaders[at + 1]}\r\n`);
    far.write('\r\n');
    near.pipe(far).pipe(near);
    near.once('close', () => far.destroy());
    far.once('close', () => near.destroy());
  });
  return {
    url: `http://127.0.0.1:${await listenLocally(server)}`,
    /** Method and path of all requests without an upgrade. */
    requests,
    fail(path: string, ...next: Fault[]) {
      faults.set(path, next);
    },
    cut() {
      for (const socket of sockets) socket.destroy();
    },
  };
}
