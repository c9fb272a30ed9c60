import { once } from 'node:events';
import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type Server,
  type ServerResponse,
  STATUS_CODES,
} from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Duplex } from 'node:stream';
import type { Config } from '../config.ts';
import { limitPlainConnections } from './connection-limiter.ts';
import { catalogue, type ErrorName } from './errors.ts';
import { jsonHeaders, jsonText } from './json-reply.ts';
import { hostCheck, hostOf } from './origins.ts';
import { ReadingLimit } from './turn-limit.ts';

export interface ListenOptions extends Partial<Pick<Config['http'], 'reusePort' | 'allowedHosts' | 'trustProxy'>> {
  /** Host name or address to bind to. If undefined, all interfaces. */
  host: string | undefined;
  /** If 0, a free port is chosen. */
  port: number;
  /** High-water mark of sockets in bytes. If undefined, Node's default applies. */
  highWaterMark?: number;
  /** Connections beyond this number are closed at once. If undefined, there is no limit. */
  maxConnections?: number;
  timeouts?: Partial<Timeouts>;
}

/** Client timeouts in milliseconds, long enough for a poor mobile network. */
export const timeouts = {
  headers: 10_000,
  /** Maximum time to receive a whole request, including its body. */
  request: 30_000,
  /** Interval at which the `headers` and `request` timeouts are checked. */
  check: 1_000,
  keepAlive: 5_000,
  /** Maximum time in which a connection sends and receives no data, for example if a client does not read a response. */
  stalled: 60_000,
  /** Maximum time for the client to close the connection after an error response. */
  closing: 5_000,
};

export type Timeouts = typeof timeouts;

/**
 * Maximum number of connections that wait to be accepted, unless the kernel's limit (`net.core.somaxconn`) is lower. A
 * client that finds the queue full tries again only after one second, then three.
 */
const BACKLOG = 4096;

/** Maximum number of bytes that Node reads from a connection at once. */
const PACKET_BYTES = 64 * 1024;

export type Listener = Awaited<ReturnType<typeof listen>>;

/** Starts an HTTP server. A client that sends a request before the previous response has ended loses its connection. */
export async function listen(handle: RequestListener, options: ListenOptions) {
  const times = { ...timeouts, ...options.timeouts };
  let closing = false;
  const unfinished = new Map<Duplex, ServerResponse>();
  const reading = new ReadingLimit();
  let isAllowed: (host: string) => boolean = () => false;
  const refusal = (request: IncomingMessage): ErrorName | undefined => {
    const host = hostOf(request);
    if (host === undefined) return 'badRequest';
    return isAllowed(host) ? undefined : 'hostNotAllowed';
  };
  const { highWaterMark, maxConnections } = options;
  const server: Server = createServer({
    ...(highWaterMark !== undefined && { highWaterMark }),
    headersTimeout: times.headers,
    requestTimeout: times.request,
    connectionsCheckingInterval: times.check,
    keepAliveTimeout: times.keepAlive,
    // Node would respond to a missing `Host` header with an empty body, so `hostOf` checks the header instead.
    requireHostHeader: false,
    shouldUpgradeCallback: (request) => {
      const { socket } = request;
      // Node would emit `upgrade` even if the previous response has not ended. Without an upgrade, `accept` closes the
      // connection.
      if (!isHandshake(request) || unfinished.has(socket) || refusal(request) !== undefined) return false;
      if (server.listenerCount('upgrade') === 0) return false;
      reading.delete(socket);
      reading.check();
      return true;
    },
  });
  server.timeout = times.stalled;
  // No limit, because Node silently drops headers beyond a limit. Node limits all headers together to 16 KiB.
  server.maxHeadersCount = 0;
  if (maxConnections !== undefined) server.maxConnections = maxConnections;
  const accept = (request: IncomingMessage, response: ServerResponse, answer: RequestListener) => {
    const { socket } = request;
    reading.check();
    // Node would queue the response and would not emit its `close` event if the connection closes, so its resources would
    // leak. After an error response, a client may keep sending on the ended connection.
    if (unfinished.has(socket) || socket.writableEnded) {
      socket.destroy();
      return;
    }
    unfinished.set(socket, response);
    response.once('close', () => {
      unfinished.delete(socket);
      if (closing) server.closeIdleConnections();
    });
    if (isLarge(request)) checkBody(request, response, reading);
    if (closing) response.setHeader('Connection', 'close');
    const error = refusal(request);
    if (error === undefined) answer(request, response);
    else refuse(response, error);
  };
  server.on('request', (request, response) => accept(request, response, handle));
  server.on('checkExpectation', (request, response) => {
    accept(request, response, () => refuse(response, 'expectationFailed'));
  });
  const { timeoutFactor, release } = limitPlainConnections(server, reading, times, options);
  answerClientErrors(server, unfinished, () => times.closing * timeoutFactor());

  const { host: name, port: planned, reusePort = false } = options;
  server.listen({ port: planned, reusePort, backlog: BACKLOG, ...(name !== undefined && { host: name }) });
  await once(server, 'listening');
  const { address: host, port } = server.address() as AddressInfo;
  isAllowed = hostCheck(options.allowedHosts ?? ['*'], host, name);
  return {
    server,
    host,
    port,
    release,
    /** Stops accepting connections, waits for unfinished responses until `deadline`, then closes all connections. */
    async close(deadline: Promise<void>): Promise<void> {
      closing = true;
      const closed = new Promise((resolve) => server.close(resolve));
      for (const response of unfinished.values()) {
        if (!response.headersSent) response.setHeader('Connection', 'close');
      }
      await Promise.race([closed, deadline]);
      server.closeAllConnections();
      await closed;
    },
  };
}

/** Whether a request has a body that may need more than one packet, or many chunks. */
function isLarge({ headers }: IncomingMessage): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length']) > PACKET_BYTES;
}

/** Counts the data of a body as work of its event loop turn. */
function checkBody(request: IncomingMessage, response: ServerResponse, reading: ReadingLimit): void {
  request.once('resume', () => request.on('data', reading.check));
  // Discards the rest of the body before Node's own listener does, because Node would not emit `data` events for it.
  response.prependOnceListener('finish', () => request.resume());
}

/** Whether a request is a WebSocket handshake without a body. */
function isHandshake({ method, headers }: IncomingMessage): boolean {
  return (
    method === 'GET' &&
    headers.upgrade?.toLowerCase() === 'websocket' &&
    headers['transfer-encoding'] === undefined &&
    (headers['content-length'] ?? '0') === '0'
  );
}

/** Returns a complete HTTP response as text, with a JSON body and `Connection: close`. */
export function rawResponse(status: number, body: unknown, headers: Readonly<Record<string, string>> = {}): string {
  const text = jsonText(body);
  const all = Object.entries({ ...headersOf(text), ...headers });
  const head = all.map(([name, value]) => `${name}: ${value}\r\n`);
  return `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${head.join('')}\r\n${text}`;
}

/** Sends an error response to a request that is not passed to the app, and closes the connection. */
function refuse(response: ServerResponse, error: ErrorName): void {
  const [status, message] = catalogue[error];
  const text = jsonText({ error: message });
  response.writeHead(status, headersOf(text)).end(text);
}

function headersOf(text: string) {
  return { ...jsonHeaders, 'Content-Length': Buffer.byteLength(text), Connection: 'close' };
}

const errorNames: Record<string, ErrorName> = {
  HPE_HEADER_OVERFLOW: 'headersTooLarge',
  ERR_HTTP_REQUEST_TIMEOUT: 'requestTimeout',
};

/** Answers malformed and timed-out requests. @param closingMs returns the time in which the client must disconnect */
function answerClientErrors(server: Server, unfinished: Map<Duplex, ServerResponse>, closingMs: () => number): void {
  const broken = new WeakSet<Duplex>();
  server.on('clientError', (error, socket) => {
    if (broken.has(socket)) return;
    broken.add(socket);
    const response = unfinished.get(socket);
    const end = () => endWithError(error, socket, closingMs());
    // The error response must follow the response to a complete request, and must not become part of a response's body.
    if (response?.req.complete) response.once('close', end);
    else if (response?.headersSent) socket.destroy();
    else end();
  });
}

function endWithError(error: NodeJS.ErrnoException, socket: Duplex, closingMs: number): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy();
    return;
  }
  const [status, message] = catalogue[errorNames[error.code ?? ''] ?? 'badRequest'];
  socket.end(rawResponse(status, { error: message }));
  // Destroying the socket while the client is sending would cause a TCP reset, which discards the error response.
  const timer = setTimeout(() => socket.destroy(), closingMs).unref();
  socket.once('close', () => clearTimeout(timer));
}
