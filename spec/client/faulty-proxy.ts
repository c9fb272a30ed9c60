import { createServer, type OutgoingHttpHeaders, request } from 'node:http';
import { connect, type Socket } from 'node:net';
import { listenLocally } from '../support/free-port.ts';

/** A response in place of the service's; or the service's response, lost or held back; or half of a frame. */
type Fault = { status: number; headers?: OutgoingHttpHeaders } | 'lost' | 'buffered' | 'cut in a frame';

export type FaultyProxy = Awaited<ReturnType<typeof faultyProxy>>;

/** Starts a proxy to a service, which fails requests as told. */
export async function faultyProxy(service: string) {
  const { hostname, port } = new URL(service);
  const faults = new Map<string, Fault[]>();
  const requests: string[] = [];
  const sockets = new Set<Socket>();
  const faultOf = (method = '', path = '') => {
    requests.push(`${method} ${path}`);
    return faults.get(path)?.shift();
  };
  const server = createServer((near, answer) => {
    const { method, url: path, headers } = near;
    const fault = faultOf(method, path);
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
    const fault = faultOf(method, url);
    const far = connect(Number(port), hostname).on('error', () => {});
    far.write(`${method} ${url} HTTP/1.1\r\n`);
    for (let at = 0; at < rawHeaders.length; at += 2) far.write(`${rawHeaders[at]}: ${rawHeaders[at + 1]}\r\n`);
    far.write('\r\n');
    near.pipe(far);
    // The first packet of frames may have the snapshot.
    let packets = 0;
    far.on('data', (chunk: Buffer) => {
      if (chunk[0] === 0x81) packets += 1;
      const isCut = fault !== undefined && packets === 2;
      near.write(isCut ? chunk.subarray(0, chunk.length / 2) : chunk);
      if (isCut) near.end();
    });
    near.once('close', () => far.destroy());
    far.once('close', () => near.destroy());
    sockets.add(near);
  });
  /** Destroys every connection. */
  const cut = () => {
    for (const socket of sockets) socket.destroy();
  };
  return {
    url: `http://127.0.0.1:${await listenLocally(server)}`,
    /** Method and path of all requests. */
    requests,
    /** Fails the next requests to a path. */
    fail(path: string, ...next: Fault[]) {
      faults.set(path, next);
    },
    cut,
  };
}
