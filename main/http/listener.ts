import { createServer, type IncomingMessage, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Duplex } from 'node:stream';
import { answerClientErrors } from './client-errors.ts';
import type { ErrorName } from './errors.ts';
import { hostCheck, hostOf } from './host.ts';
import { PlainConnections } from './plain-connections.ts';
import { refuse } from './raw-response.ts';
import { RequestOrder } from './request-order.ts';
import { BODY_BYTES_PER_TURN, RequestReader } from './request-reader.ts';
import { Turns } from './turns.ts';

export interface ListenOptions {
  /** Host name or address to bind to. Undefined means every interface. */
  host: string | undefined;
  /** Port to listen on. 0 picks a free one. */
  port: number;
  /** Whether other processes may listen on the same port. The system distributes the connections among them. */
  reusePort?: boolean;
  /** High-water mark of sockets in bytes. Node's default if undefined. */
  highWaterMark?: number;
  /** Maximum number of open connections. Further ones are closed at once. No limit if undefined. */
  maxConnections?: number;
  /** Share of the plain connections that one address may have. Further ones are closed at once. No limit if undefined. */
  addressShare?: number;
  /** Allowed hosts of requests; see `hostCheck`. All hosts if undefined. */
  allowedHosts?: readonly string[];
  /** Overrides of {@link timeouts} in tests. */
  timeouts?: Partial<Timeouts>;
}

/**
 * Client timeouts in milliseconds, generous for a bad mobile network. Node's defaults are 60 s for headers, 300 s for a request
 * and none for a stalled response.
 */
export const timeouts = {
  /** Time from the connection, or the first byte of a later request, to the end of the headers. */
  headers: 10_000,
  /** Time from the connection, or the first byte of a later request, to the end of the body. */
  request: 30_000,
  /** Interval at which the two timeouts above are checked. */
  check: 1_000,
  /** Idle time between two requests. */
  keepAlive: 5_000,
  /** Time without traffic in either direction, which also bounds the wait for a client that does not read. */
  stalled: 60_000,
  /** Time for the client to close its side after an error response. */
  closing: 5_000,
};

export type Timeouts = typeof timeouts;

export interface Listener {
  server: Server;
  host: string;
  port: number;
  /** Stops counting an upgraded connection as a plain one. */
  release(socket: Duplex): void;
  /** Stops accepting connections, and waits until open requests are answered or `deadline` resolves. */
  close(deadline: Promise<void>): Promise<void>;
}

/** Starts an HTTP server. @throws {Error} with the system's `code`, if it cannot listen on the address */
export async function listen(handle: RequestListener, options: ListenOptions): Promise<Listener> {
  const times = { ...timeouts, ...options.timeouts };
  let closing = false;
  const readers = new WeakMap<Duplex, RequestReader>();
  const bodies = new Turns(BODY_BYTES_PER_TURN);
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
    // Node emits `upgrade` before outstanding responses are sent. A handshake declined here is queued behind them.
    const isQueued = reader?.isPipelined || order.outstanding(request.socket).length > 0;
    if (!upgrades(request) || isQueued || refusal(request) !== undefined) return false;
    reader?.onUpgrade();
    return true;
  });
  server.on('connection', (socket) => {
    readers.set(socket, new RequestReader(socket, () => order.outstanding(socket).length > 0, bodies));
  });
  const begin: RequestListener = (request, response) => {
    if (closing) response.setHeader('Connection', 'close');
    const error = refusal(request);
    if (error !== undefined) refuse(response, error);
    // A handshake that gets here was pipelined. It is refused and closed, because frames may follow.
    else if (upgrades(request)) refuse(response, 'badRequest');
    else handle(request, response);
  };
  handleInOrder(server, begin, (request, response, answer) => {
    readers.get(request.socket)?.onHeaders(request);
    order.enqueue(request, response, answer);
  });
  const connections = new PlainConnections(server, times, options);
  answerClientErrors(server, order, () => times.closing * connections.timeoutFactor);

  const { address: host, port } = await open(server, options);
  isAllowed = hostCheck(options.allowedHosts ?? ['*'], host, options.host);
  return {
    server,
    host,
    port,
    release: connections.release,
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

/** Handles the requests of each connection in order, including those with `Expect`. */
function handleInOrder(server: Server, begin: RequestListener, enqueue: RequestOrder['enqueue']): void {
  // Only in the request's turn: for a queued response, Node would write the headers before `100 Continue`.
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
    // A client that sends nothing, or one byte a second, gets 408 and is disconnected.
    headersTimeout: times.headers,
    requestTimeout: times.request,
    connectionsCheckingInterval: times.check,
    // Node waits a second longer than it announces, so that no request arrives at a closing connection.
    keepAliveTimeout: times.keepAlive,
    // `hostOf` checks the header instead, because Node would respond 400 without a body.
    requireHostHeader: false,
    shouldUpgradeCallback,
  });
  server.timeout = times.stalled;
  // No limit on the number of headers, because Node would silently drop the rest. Their size is limited to 16 KiB.
  server.maxHeadersCount = 0;
  if (maxConnections !== undefined) server.maxConnections = maxConnections;
  return server;
}

/** Whether a request is a WebSocket handshake. Any other `Upgrade` is ignored, and one with a body, which would precede all frames. */
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
  server.listen({ port, reusePort, ...(host !== undefined && { host }) }, opened.resolve);
  await opened.promise;
  server.off('error', opened.reject);
  return server.address() as AddressInfo;
}
