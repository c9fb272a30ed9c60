import { createServer, type IncomingMessage, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Duplex } from 'node:stream';
import { answerClientErrors } from './client-errors.ts';
import type { ErrorName } from './errors.ts';
import { hostCheck, hostOf } from './host-header.ts';
import { limitPlainConnections } from './plain-connections.ts';
import { refuse } from './raw-response.ts';
import { RequestOrder } from './request-order.ts';
import { BODY_BYTES_PER_TURN, RequestReader } from './request-reader.ts';
import { TurnLimit } from './turn-limit.ts';

export interface ListenOptions {
  /** Host name or address to bind to. If undefined, all interfaces. */
  host: string | undefined;
  /** If 0, a free port is chosen. */
  port: number;
  reusePort?: boolean;
  /** High-water mark of sockets in bytes. If undefined, Node's default applies. */
  highWaterMark?: number;
  /** Connections beyond this number are closed at once. If undefined, there is no limit. */
  maxConnections?: number;
  /** Maximum fraction of plain (non-WebSocket) connections that one address may use. Default: 1. */
  addressShare?: number;
  /** Hosts allowed in the `Host` header. If undefined, all hosts are allowed. */
  allowedHosts?: readonly string[];
  timeouts?: Partial<Timeouts>;
}

/** Client timeouts in milliseconds, long enough for a poor mobile network. */
export const timeouts = {
  /** Maximum time to receive the headers of a request. */
  headers: 10_000,
  /** Maximum time to receive a whole request, including its body. */
  request: 30_000,
  /** Interval at which the `headers` and `request` timeouts are checked. */
  check: 1_000,
  /** Maximum idle time of a connection between requests. */
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

export interface Listener {
  server: Server;
  host: string;
  port: number;
  /** Stops counting the socket of a WebSocket as a plain HTTP connection. */
  release(socket: Duplex): void;
  /** Stops accepting connections, waits for unfinished responses until `deadline`, then closes all connections. */
  close(deadline: Promise<void>): Promise<void>;
}

/** Starts an HTTP server. @throws {Error} with a `code` such as `EADDRINUSE` */
export async function listen(handle: RequestListener, options: ListenOptions): Promise<Listener> {
  const times = { ...timeouts, ...options.timeouts };
  let closing = false;
  const readers = new WeakMap<Duplex, RequestReader>();
  const bodies = new TurnLimit(BODY_BYTES_PER_TURN);
  const order = new RequestOrder((socket) => {
    readers.get(socket)?.onAnswered();
    if (closing) server.closeIdleConnections();
  });
  const upgrades = (request: IncomingMessage) => server.listenerCount('upgrade') > 0 && isHandshake(request);
  let isAllowed: (host: string) => boolean = () => false;
  const refusal = (request: IncomingMessage): ErrorName | undefined => {
    const host = hostOf(request);
    if (host === undefined) return 'badRequest';
    return isAllowed(host) ? undefined : 'hostNotAllowed';
  };
  const server = createBareServer(options, times, (request) => {
    const reader = readers.get(request.socket);
    // Pipelined handshakes are queued, because Node would emit `upgrade` before the earlier responses end.
    const isQueued = reader?.isPipelined || order.outstanding(request.socket).length > 0;
    if (!upgrades(request) || isQueued || refusal(request) !== undefined) return false;
    reader?.onUpgrade();
    // The reader would keep the HTTP parser in memory while the upgraded connection is open.
    readers.delete(request.socket);
    return true;
  });
  server.on('connection', (socket) => {
    readers.set(socket, new RequestReader(socket, () => order.outstanding(socket).length > 0, bodies));
  });
  const begin: RequestListener = (request, response) => {
    if (closing) response.setHeader('Connection', 'close');
    const error = refusal(request);
    if (error !== undefined) refuse(response, error);
    // A pipelined handshake is refused and its connection closed, because WebSocket frames may follow.
    else if (upgrades(request)) refuse(response, 'badRequest');
    else handle(request, response);
  };
  handleInOrder(server, begin, (request, response, answer) => {
    readers.get(request.socket)?.onHeaders(request);
    order.enqueue(request, response, answer);
  });
  const { timeoutFactor, release } = limitPlainConnections(server, times, options);
  answerClientErrors(server, order, () => times.closing * timeoutFactor());

  const { address: host, port } = await open(server, options);
  isAllowed = hostCheck(options.allowedHosts ?? ['*'], host, options.host);
  return {
    server,
    host,
    port,
    release,
    async close(deadline) {
      closing = true;
      const closed = new Promise((resolve) => server.close(resolve));
      for (const last of order.last()) {
        if (!last.headersSent) last.setHeader('Connection', 'close');
      }
      server.closeIdleConnections();
      await Promise.race([closed, deadline]);
      server.closeAllConnections();
      await closed;
    },
  };
}

function handleInOrder(server: Server, begin: RequestListener, enqueue: RequestOrder['enqueue']): void {
  // Called after the earlier responses of the connection, because a `100 Continue` must not be sent in the middle of one.
  const beginContinued: RequestListener = (request, response) => {
    response.writeContinue();
    begin(request, response);
  };
  server.on('request', (request, response) => enqueue(request, response, begin));
  server.on('checkContinue', (request, response) => enqueue(request, response, beginContinued));
  server.on('checkExpectation', (request, response) => {
    enqueue(request, response, () => refuse(response, 'expectationFailed'));
  });
}

function createBareServer(
  { highWaterMark, maxConnections }: ListenOptions,
  times: Timeouts,
  shouldUpgradeCallback: (request: IncomingMessage) => boolean,
): Server {
  const server = createServer({
    ...(highWaterMark !== undefined && { highWaterMark }),
    headersTimeout: times.headers,
    requestTimeout: times.request,
    connectionsCheckingInterval: times.check,
    keepAliveTimeout: times.keepAlive,
    // Node would respond to a missing `Host` header with an empty body, so `hostOf` checks the header instead.
    requireHostHeader: false,
    shouldUpgradeCallback,
  });
  server.timeout = times.stalled;
  // No limit, because Node silently drops headers beyond a limit. Node limits all headers together to 16 KiB.
  server.maxHeadersCount = 0;
  if (maxConnections !== undefined) server.maxConnections = maxConnections;
  return server;
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

async function open(server: Server, { host, port, reusePort = false }: ListenOptions): Promise<AddressInfo> {
  const opened = Promise.withResolvers<void>();
  server.once('error', opened.reject);
  server.listen({ port, reusePort, backlog: BACKLOG, ...(host !== undefined && { host }) }, opened.resolve);
  await opened.promise;
  server.off('error', opened.reject);
  return server.address() as AddressInfo;
}
