import { createServer, type IncomingMessage, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Duplex } from 'node:stream';
import { hostCheck } from './allowed-hosts.ts';
import { answerClientErrors } from './client-errors.ts';
import type { ErrorName } from './errors.ts';
import { hostOf } from './host.ts';
import { PlainConnections } from './plain-connections.ts';
import { refuse } from './raw-response.ts';
import { RequestOrder } from './request-order.ts';

export interface ListenOptions {
  /** Undefined means every interface. */
  host: string | undefined;
  /** 0 picks a free one. */
  port: number;
  /** Whether other processes may listen there, too: the system shares the connections out among them. */
  reusePort?: boolean;
  /** Bytes that may wait in a socket before it counts as slow; Node's own default where absent. */
  highWaterMark?: number;
  /** Connections that may be open; one more is accepted and closed at once. No bound where absent. */
  maxConnections?: number;
  /** Share of the plain connections that one address may hold; one more is closed at once. No bound if undefined. */
  addressShare?: number;
  /** Hosts of requests; see `hostCheck`. All are allowed if undefined. */
  allowedHosts?: readonly string[];
  /** Shorter ones in tests. */
  timeouts?: Partial<Timeouts>;
}

/** How long a client may take, all in milliseconds. */
export interface Timeouts {
  /** From the connection, or the first byte of a further request, to the end of the headers. */
  headers: number;
  /** From the same moment to the end of the body. */
  request: number;
  /** How often the two above are looked after. */
  check: number;
  /** Between two requests. */
  keepAlive: number;
  /** For anything to move on a connection, in either direction: nobody waits longer for an answer that is not read. */
  stalled: number;
  /** To close its side after a refusal. */
  closing: number;
}

/** Generous for a bad mobile network; Node's own are a minute for headers, five for a request, none for an answer. */
export const timeouts: Readonly<Timeouts> = {
  headers: 10_000,
  request: 30_000,
  check: 1_000,
  keepAlive: 5_000,
  stalled: 60_000,
  closing: 5_000,
};

export interface Listener {
  server: Server;
  host: string;
  port: number;
  /** Stops counting a connection that has left HTTP as a plain one. */
  release(socket: Duplex): void;
  /** Takes no more connections, and waits until the open requests are answered or `deadline` is over. */
  close(deadline: Promise<void>): Promise<void>;
}

/**
 * Starts an HTTP server.
 *
 * @throws {Error} of the system when the address cannot be listened on (`code` says why)
 */
export async function listen(handle: RequestListener, options: ListenOptions): Promise<Listener> {
  const times = { ...timeouts, ...options.timeouts };
  let closing = false;
  const order = new RequestOrder(() => {
    if (closing) server.closeIdleConnections();
  });
  const upgrades = (request: IncomingMessage) => server.listenerCount('upgrade') > 0 && isHandshake(request);
  let isAllowed: (host: string) => boolean = () => false;
  const refusal = (request: IncomingMessage): ErrorName | undefined => {
    const host = hostOf(request);
    if (host === undefined) return 'badRequest';
    return isAllowed(host) ? undefined : 'hostNotAllowed';
  };
  const server = createBareServer(
    options,
    times,
    // Node's `upgrade` event would overtake outstanding responses. A handshake declined here waits for its turn.
    (request) => upgrades(request) && order.outstanding(request.socket).length === 0 && refusal(request) === undefined,
  );
  const begin: RequestListener = (request, response) => {
    if (closing) response.setHeader('Connection', 'close');
    const error = refusal(request);
    if (error !== undefined) refuse(response, error);
    // A handshake that gets here was pipelined. Frames may follow, so the connection ends.
    else if (upgrades(request)) refuse(response, 'badRequest');
    else handle(request, response);
  };
  handleInOrder(server, order, begin);
  const connections = new PlainConnections(server, times, options);
  answerClientErrors(server, order, () => times.closing * connections.patience);

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

/** Handles the requests of each connection in order, those with `Expect` included. */
function handleInOrder(server: Server, order: RequestOrder, begin: RequestListener): void {
  // In its turn only: Node would write `100 Continue` behind the headers of a response that waits for another.
  const beginContinued: RequestListener = (request, response) => {
    response.writeContinue();
    begin(request, response);
  };
  server.on('request', (request, response) => order.enqueue(request, response, begin));
  server.on('checkContinue', (request, response) => order.enqueue(request, response, beginContinued));
  server.on('checkExpectation', (request, response) => {
    order.enqueue(request, response, () => refuse(response, 'expectationFailed'));
  });
}

/** A server with the options and bounds of a listener, and without request handling. */
function createBareServer(
  { highWaterMark, maxConnections }: ListenOptions,
  times: Timeouts,
  shouldUpgradeCallback: (request: IncomingMessage) => boolean,
): Server {
  const server = createServer({
    ...(highWaterMark !== undefined && { highWaterMark }),
    // A connection that sends nothing, or one byte a second, is answered 408 and closed.
    headersTimeout: times.headers,
    requestTimeout: times.request,
    connectionsCheckingInterval: times.check,
    // Node adds a second to the time that it announces, so that no request arrives at a closing connection.
    keepAliveTimeout: times.keepAlive,
    // Node would answer 400 without a body; `hostOf` checks the header.
    requireHostHeader: false,
    shouldUpgradeCallback,
  });
  server.timeout = times.stalled;
  // Their size (16 KiB) bounds the headers; a bound on their number would make Node omit the rest silently.
  server.maxHeadersCount = 0;
  if (maxConnections !== undefined) server.maxConnections = maxConnections;
  return server;
}

/**
 * Whether a request is a WebSocket handshake. Any other `Upgrade` is ignored, as HTTP allows, and so is one with a body:
 * no frame would be read behind a body that is not read or never ends.
 */
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
