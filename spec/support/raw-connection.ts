import { once } from 'node:events';
import { connect } from 'node:net';
import { afterTest } from './cleanup.ts';
import { noteWire, serviceAt } from './contract-watch.ts';
import { Condition } from './until.ts';

export type RawConnection = Awaited<ReturnType<typeof connectRaw>>;

/** Connects to a port for requests that no HTTP client would send, and sends `lines` with CRLF line endings. */
export async function connectRaw(port: number, ...lines: string[]) {
  const socket = connect(port, '127.0.0.1');
  const service = serviceAt(port);
  let received = '';
  afterTest(() => {
    socket.destroy();
    noteWire(service, received, lines.length > 0 ? head(...lines) : undefined);
  });
  await once(socket, 'connect');

  const arrived = new Condition();
  socket.setEncoding('latin1').on('data', (chunk: string) => {
    received += chunk;
    arrived.changed();
  });
  socket.on('error', () => {});
  const ended = new Promise<string>((resolve) => {
    socket.once('close', () => {
      arrived.changed();
      resolve(received);
    });
  });
  if (lines.length > 0) socket.write(head(...lines));

  return {
    socket,
    ended,
    /** Waits until the received text fits, and returns all of it. Rejects if the connection ends before. */
    until: (fits: RegExp) =>
      arrived.found(() => {
        if (fits.test(received)) return received;
        if (socket.closed) throw new Error(`the connection ended after ${JSON.stringify(received)}`);
        return undefined;
      }),
  };
}

/** Like {@link connectRaw}, for a client that keeps its side of the connection open when the server has closed its own. */
export async function connectHalfOpen(port: number, ...lines: string[]): Promise<RawConnection> {
  const raw = await connectRaw(port);
  raw.socket.allowHalfOpen = true;
  if (lines.length > 0) raw.socket.write(head(...lines));
  return raw;
}

export function head(...lines: string[]): string {
  return `${lines.join('\r\n')}\r\n\r\n`;
}

/** Head of a request on a connection that the service closes after its response. */
export function lastHead(request: string, ...headers: string[]): string {
  return head(`${request} HTTP/1.1`, 'Host: localhost', 'Connection: close', ...headers);
}

/** A request with a body on a connection that the service closes after its response. */
export function posting(path: string, body: string | Buffer, ...headers: string[]): Buffer {
  const start = lastHead(`POST ${path}`, `Content-Length: ${Buffer.byteLength(body)}`, ...headers);
  return Buffer.concat([start, body].map((part) => Buffer.from(part)));
}

export function handshake(path = '/ws/ticker', token?: string): string[] {
  return [
    `GET ${path} HTTP/1.1`,
    'Host: localhost',
    'Connection: Upgrade',
    'Upgrade: websocket',
    'Sec-WebSocket-Version: 13',
    'Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==',
    ...(token === undefined ? [] : [`Authorization: Bearer ${token}`]),
  ];
}

export function parseResponse(text: string): { status: number; headers: string; body: string } {
  const [headers = '', ...rest] = text.split('\r\n\r\n');
  return { status: Number(headers.split(' ')[1]), headers, body: rest.join('\r\n\r\n') };
}
