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
import { type ErrorName, HttpError } from './errors.ts';
import { dataHeaders } from './security-headers.ts';

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
  /** Takes no more connections, and waits until the open requests are answered or `deadline` is over. */
  close(deadline: Promise<void>): Promise<void>;
}

/** Requests that a connection may have sent without waiting for the answers; one that sends more is cut off. */
const MAX_AWAITED = 100;

/**
 * Starts an HTTP server.
 *
 * @throws {Error} of the system when the address cannot be listened on (`code` says why)
 */
export async function listen(handle: RequestListener, options: ListenOptions): Promise<Listener> {
  const { host, port, reusePort = false, highWaterMark, maxConnections } = options;
  const times = { ...timeouts, ...options.timeouts };
  let closing = false;
  const server: Server = createServer({
    ...(highWaterMark !== undefined && { highWaterMark }),
    // A connection that sends nothing, or one byte a second, is answered 408 and closed.
    headersTimeout: times.headers,
    requestTimeout: times.request,
    connectionsCheckingInterval: times.check,
    // (Node adds a second to what it tells the client, so that no request meets the closing.)
    keepAliveTimeout: times.keepAlive,
    // Node would refuse such a request without a body; see below.
    requireHostHeader: false,
    // Only a WebSocket handshake leaves HTTP; any other wish to upgrade is ignored, as HTTP allows. One with a body
    // stays, too: behind a body that is not read, or never ends, no frame would ever be seen.
    shouldUpgradeCallback: ({ method, headers }) =>
      server.listenerCount('upgrade') > 0 &&
      method === 'GET' &&
      headers.upgrade?.toLowerCase() === 'websocket' &&
      headers['transfer-encoding'] === undefined &&
      (headers['content-length'] ?? '0') === '0',
  });
  server.timeout = times.stalled;
  // Their size (16 KiB) bounds the headers; by a count Node would leave out the rest without a word.
  server.maxHeadersCount = 0;
  if (maxConnections !== undefined) server.maxConnections = maxConnections;
  /** What each connection that ever asked has not got, in order. Only the first is worked on: see {@link ask}. */
  const open = new Map<Duplex, ServerResponse[]>();
  const enlist = (socket: Duplex) => {
    const awaited: ServerResponse[] = [];
    open.set(socket, awaited);
    socket.once('close', () => open.delete(socket));
    return awaited;
  };
  /**
   * Has `answer` called when it is the turn of `response`. Node would have all requests of a connection handled at once,
   * and not tell those that wait for their turn when the connection is gone: what they hold would be held for ever.
   */
  const ask = (request: IncomingMessage, response: ServerResponse, answer: RequestListener) => {
    const { socket } = request;
    if (socket.writableEnded) {
      // It was refused, and goes on.
      socket.destroy();
      return;
    }
    const awaited = open.get(socket) ?? enlist(socket);
    const before = awaited.at(-1);
    if (awaited.push(response) > MAX_AWAITED) socket.destroy();
    else if (before === undefined) answer(request, response);
    else {
      before.once('close', () => {
        // None where the answer before it was the connection's last.
        if (response.socket !== null) answer(request, response);
      });
    }
    response.on('close', onAnswered);
  };
  const onAnswered = function (this: ServerResponse) {
    open.get(this.req.socket)?.shift();
    if (closing) server.closeIdleConnections();
  };
  const begin: RequestListener = (request, response) => {
    if (closing) response.setHeader('Connection', 'close');
    if (request.headers.host === undefined && request.httpVersion === '1.1') end(response, 'badRequest');
    else handle(request, response);
  };
  // Not before its turn: Node would put it behind the headers of a response that waits for another.
  const beginContinued: RequestListener = (request, response) => {
    response.writeContinue();
    begin(request, response);
  };
  server.on('request', (request, response) => ask(request, response, begin));
  server.on('checkContinue', (request, response) => ask(request, response, beginContinued));
  server.on('checkExpectation', (request, response) => {
    ask(request, response, () => end(response, 'expectationFailed'));
  });
  /** Connections that nothing more is read from. */
  const broken = new WeakSet<Duplex>();
  server.on('clientError', (error, socket) => {
    if (broken.has(socket)) return;
    broken.add(socket);
    const awaited = [...(open.get(socket) ?? [])];
    const end = () => {
      // Never into the midst of another response.
      if (awaited.some(({ headersSent, writableFinished }) => headersSent && !writableFinished)) socket.destroy();
      else refuse(error, socket, times.closing);
    };
    // Whole requests are answered first, or this answer would be taken for theirs.
    const last = awaited.findLast(({ req, headersSent }) => req.complete || headersSent);
    if (last === undefined) return end();
    const timer = setTimeout(() => socket.destroy(), times.closing).unref();
    last.once('close', () => {
      clearTimeout(timer);
      end();
    });
  });

  const opened = Promise.withResolvers<void>();
  server.once('error', opened.reject);
  server.listen({ port, reusePort, ...(host !== undefined && { host }) }, opened.resolve);
  await opened.promise;
  server.off('error', opened.reject);

  const address = server.address() as AddressInfo;
  return {
    server,
    host: address.address,
    port: address.port,
    async close(deadline) {
      closing = true;
      const closed = new Promise((resolve) => server.close(resolve));
      for (const awaited of open.values()) {
        const last = awaited.at(-1);
        if (last?.headersSent === false) last.setHeader('Connection', 'close');
      }
      server.closeIdleConnections();
      await Promise.race([closed, deadline]);
      server.closeAllConnections();
      await closed;
    },
  };
}

const clientErrors: Record<string, ErrorName> = {
  HPE_HEADER_OVERFLOW: 'headersTooLarge',
  ERR_HTTP_REQUEST_TIMEOUT: 'requestTimeout',
};

/** Answers bytes that are no HTTP request, for which there is no response object. */
function refuse(error: NodeJS.ErrnoException, socket: Duplex, closingMs: number): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy();
    return;
  }
  const { status, message } = new HttpError(clientErrors[error.code ?? ''] ?? 'badRequest');
  socket.end(rawResponse(status, { error: message }));
  // Not at once, or what the client still sends would cost it the answer.
  const timer = setTimeout(() => socket.destroy(), closingMs).unref();
  socket.once('close', () => clearTimeout(timer));
}

/** Answers a request that no app gets to see. */
function end(response: ServerResponse, error: ErrorName): void {
  const { status, message } = new HttpError(error);
  response.writeHead(status, {
    ...dataHeaders,
    'Content-Type': 'application/json; charset=utf-8',
    Connection: 'close',
  });
  response.end(JSON.stringify({ error: message }));
}

/** A whole HTTP response with a JSON body, after which the connection ends. */
export function rawResponse(status: number, body: unknown, headers: Readonly<Record<string, string>> = {}): string {
  const text = JSON.stringify(body);
  const all = {
    ...dataHeaders,
    'Content-Type': 'application/json; charset=utf-8',
    'Content-Length': Buffer.byteLength(text),
    Connection: 'close',
    ...headers,
  };
  const head = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`);
  return `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${head.join('')}\r\n${text}`;
}
