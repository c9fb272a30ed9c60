import { createServer, type IncomingMessage, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Duplex } from 'node:stream';
import { answerClientErrors } from './client-errors.ts';
import type { ErrorName } from './errors.ts';
import { hostCheck, hostOf } from './host-header.ts';
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
  /** Whether other processes may listen on the same port. The operating system then distributes the connections among them. */
  reusePort?: boolean;
  /** High-water mark of sockets in bytes. Node's default if undefined. */
  highWaterMark?: number;
  /** Maximum number of open connections. Further connections are closed at once. No limit if undefined. */
  maxConnections?: number;
  /** Fraction of the plain (non-WebSocket) connections that one address may hold. Further ones are closed. 1 if undefined. */
  addressShare?: number;
  /** Hosts that requests may name in `Host`; see `hostCheck`. All hosts if undefined. */
  allowedHosts?: readonly string[];
  /** Overrides of {@link timeouts} in tests. */
  timeouts?: Partial<Timeouts>;
}

/**
 * Time limits for clients in milliseconds, generous for a bad mobile network. Node's defaults are 60 s for the headers,
 * 300 s for the whole request, and no limit for a response that the client does not read.
 */
export const timeouts = {
  /** Maximum time from the start of the connection, or the first byte of a later request, to the end of the headers. */
  headers: 10_000,
  /** Maximum time from the start of the connection, or the first byte of a later request, to the end of the body. */
  request: 30_000,
  /** Interval at which `headers` and `request` are checked. */
  check: 1_000,
  /** Maximum idle time of a connection between two requests. */
  keepAlive: 5_000,
  /** Maximum time without traffic in either direction, for example because the client does not read the response. */
  stalled: 60_000,
  /** Maximum time that a client may take to close its side after an error response. */
  closing: 5_000,
};

export type Timeouts = typeof timeouts;

export interface Listener {
  server: Server;
  host: string;
  port: number;
  /** Stops counting the socket of a WebSocket as a plain connection. */
  release(socket: Duplex): void;
  /** Stops accepting connections, waits for open responses, at most until `deadline`, and closes all connections. */
  close(deadline: Promise<void>): Promise<void>;
}

/** Starts an HTTP server. @throws {Error} with a `code` such as `EADDRINUSE`, if it cannot listen on the address */
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
    // Handles a handshake behind outstanding responses as a queued request: Node would emit `upgrade` before they are sent.
    const isQueued = reader?.isPipelined || order.outstanding(request.socket).length > 0;
    if (!upgrades(request) || isQueued || refusal(request) !== undefined) return false;
    reader?.onUpgrade();
    // The parser and its state could otherwise not be freed while the upgraded connection is open.
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
    // A handshake that arrives here was pipelined. It is refused, and the connection closed, because frames may follow.
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

/** Handles the requests of each connection in order, including those with an `Expect` header. */
function handleInOrder(server: Server, begin: RequestListener, enqueue: RequestOrder['enqueue']): void {
  // Sends `100 Continue` only when the request is handled: for a queued response, Node would write the headers before it.
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
    // A client that sends nothing, or one byte a second, gets 408 after these timeouts and is disconnected.
    headersTimeout: times.headers,
    requestTimeout: times.request,
    connectionsCheckingInterval: times.check,
    // Node keeps an idle connection open a second longer than announced, so that no request arrives while it closes.
    keepAliveTimeout: times.keepAlive,
    // Node's check of the `Host` header is off, because it responds 400 without a body. `hostOf` checks the header.
    requireHostHeader: false,
    shouldUpgradeCallback,
  });
  server.timeout = times.stalled;
  // No limit: Node would silently drop the headers beyond it. The total size of the headers is limited to 16 KiB anyway.
  server.maxHeadersCount = 0;
  if (maxConnections !== undefined) server.maxConnections = maxConnections;
  return server;
}

/** Whether a request is a WebSocket handshake without a body, which would precede all frames. Ignores other upgrades. */
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
