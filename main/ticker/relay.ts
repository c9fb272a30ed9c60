import { type IncomingMessage, type RequestListener, ServerResponse } from 'node:http';
import { type Duplex, Writable } from 'node:stream';
import type { Middleware } from 'koa';
import { type ServerOptions, type WebSocket, WebSocketServer } from 'ws';
import type { Pid, WsSend } from '../../workers/messages.ts';
import { type ConnectionBounds, ConnectionLimiter } from '../http/connection-limiter.ts';
import { HttpError } from '../http/errors.ts';
import { rawResponse } from '../http/raw-response.ts';
import { CLIENT_CLOSED_REQUEST } from '../metrics/request-metrics.ts';
import { type CloseCode, closeCodes } from './close-codes.ts';
import { type ClientTimeouts, Connection, clientTimeouts } from './connection.ts';
import { textFrame } from './frame.ts';
import type { ExitReason, ProcessRegistry } from './process-registry.ts';
import { StreamMetrics } from './stream-metrics.ts';
import { SUBPROTOCOL } from './token-auth.ts';

/** The header by which the endpoint tells the relay which handler receives a connection's messages. */
export const RELAY_HEADER = 'X-WS-Relay';

/** Content of the {@link RELAY_HEADER}, as JSON. */
export interface RelayTarget {
  target_pid: Pid;
  metadata: { user_id: string; auth_time: number };
}

/** Bytes that may wait in a client's socket before it counts as slow. */
export const SOCKET_BUFFER = 8 * 1024;

/** What a client may send: the one message that has an effect is 15 bytes long. */
const MAX_MESSAGE_BYTES = 4 * 1024;
const MAX_FRAGMENTS = 16;
/** Pieces in which the bytes of a frame may arrive: each costs a hundred times its bytes. */
const MAX_PIECES = 64;
/** How long a closed connection may stay until it is cut off. */
const CLOSING_TIME_MS = 5_000;
/** How long a handshake may take from its headers to the join, or to the end of the answer that refuses it. */
const HANDSHAKE_TIME_MS = 10_000;
const CHECK_INTERVAL_MS = 1_000;

export interface RelayLimits extends ConnectionBounds {
  /** Messages, pings and pongs that one client may send, in the long run. */
  maxMessagesPerSecond: number;
  clientTimeouts?: ClientTimeouts;
  handshakeMs?: number;
}

/**
 * Owns the sockets of the WebSocket clients, and nothing else. A handshake goes through the HTTP app like any
 * request; where the app answers with the {@link RELAY_HEADER}, the relay completes it and passes messages between
 * the socket and the handler that the header names. Every other answer reaches the client as plain HTTP.
 */
export class Relay {
  readonly metrics = new StreamMetrics();
  readonly #processes: ProcessRegistry;
  readonly #clientTimeouts: ClientTimeouts;
  readonly #maxMessagesPerSecond: number;
  readonly #handshakeMs: number;
  readonly #limiter: ConnectionLimiter;
  readonly #connections = new Map<Pid, Connection>();
  readonly #handshakes = new WeakMap<
    IncomingMessage,
    { socket: Duplex; head: Buffer; headers: string[]; onJoin: () => void; error?: HttpError }
  >();
  /** Sockets whose handshake is under way or was refused, and what cuts them off when that takes too long. */
  readonly #unjoined = new Map<Duplex, NodeJS.Timeout>();
  readonly #server: WebSocketServer;
  readonly #timer: NodeJS.Timeout;
  #closing: PromiseWithResolvers<void> | undefined;

  constructor(processes: ProcessRegistry, limits: RelayLimits) {
    this.#processes = processes;
    this.#clientTimeouts = limits.clientTimeouts ?? clientTimeouts;
    this.#maxMessagesPerSecond = limits.maxMessagesPerSecond;
    this.#handshakeMs = limits.handshakeMs ?? HANDSHAKE_TIME_MS;
    this.#limiter = new ConnectionLimiter(limits);
    const options: ServerOptions & { closeTimeout: number; maxBufferedChunks: number; maxFragments: number } = {
      noServer: true,
      clientTracking: false,
      autoPong: false,
      perMessageDeflate: false,
      maxPayload: MAX_MESSAGE_BYTES,
      maxFragments: MAX_FRAGMENTS,
      maxBufferedChunks: MAX_PIECES,
      closeTimeout: CLOSING_TIME_MS,
      // Never echo what was offered: one of the offers is the token.
      handleProtocols: (offered) => (offered.has(SUBPROTOCOL) ? SUBPROTOCOL : false),
    };
    this.#server = new WebSocketServer(options);
    this.#server.on('headers', (headers, request) => {
      headers.push(...(this.#handshakes.get(request)?.headers ?? []));
    });
    this.#server.on('wsClientError', (_error, socket, request) => {
      const error = new HttpError('invalidHandshake');
      const handshake = this.#handshakes.get(request);
      if (handshake !== undefined) handshake.error = error;
      socket.end(rawResponse(error.status, { error: error.message }, { 'Sec-WebSocket-Version': '13' }));
    });
    this.#timer = setInterval(() => this.#check(), CHECK_INTERVAL_MS).unref();
  }

  /** Connections that are open. */
  get size(): number {
    return this.#connections.size;
  }

  /** Places that are taken: connections that are open, and handshakes that are under way. */
  get places(): number {
    return this.#limiter.taken;
  }

  /** Whether a request is a WebSocket handshake that this relay can complete. */
  isHandshake(request: IncomingMessage): boolean {
    return this.#handshakes.has(request);
  }

  /**
   * Takes a place for the connection of a handshake, before anything is created for it.
   *
   * @throws {HttpError} when there is none, in all or for the client's `address`
   */
  acquire(request: IncomingMessage, address: string): void {
    const handshake = this.#handshakes.get(request);
    if (handshake !== undefined) this.#limiter.acquire(handshake.socket, address);
  }

  /**
   * The server's listener for `upgrade`: takes the handshake to the app behind `handle`.
   *
   * @param onJoin called when a socket has left HTTP
   */
  upgradeListener(
    handle: RequestListener,
    onJoin: (socket: Duplex) => void = () => {},
  ): (request: IncomingMessage, socket: Duplex, head: Buffer) => void {
    return (request, socket, head) => {
      socket.on('error', destroy);
      // The second: refused as too late, it comes after all.
      if (this.#closing !== undefined || socket.writableEnded) {
        socket.destroy();
        return;
      }
      this.#unjoined.set(socket, setTimeout(() => socket.destroy(), this.#handshakeMs).unref());
      socket.once('close', () => this.#endHandshake(socket));
      this.#handshakes.set(request, { socket, head, headers: [], onJoin: () => onJoin(socket) });
      // A response of its own: what it hangs on the connection goes with it once the handshake is complete.
      const response = new ServerResponse(request);
      response.shouldKeepAlive = false;
      const output = new Writable({ write: (chunk, encoding, done) => void socket.write(chunk, encoding, done) });
      output.on('error', () => socket.destroy());
      response.assignSocket(output as never);
      response.once('finish', () => socket.end());
      handle(request, response);
    };
  }

  /** Outermost middleware of the app: completes a handshake that was answered with the {@link RELAY_HEADER}. */
  readonly completeHandshake: Middleware = async (ctx, next) => {
    await next();
    const handshake = this.#handshakes.get(ctx.req);
    const relay: unknown = ctx.res.getHeader(RELAY_HEADER);
    if (handshake === undefined) return;
    if (typeof relay !== 'string') {
      this.metrics.upgrades.count(ctx.state.error ?? `answered ${ctx.status}`);
      return;
    }
    ctx.respond = false;
    const { target_pid: handler } = JSON.parse(relay) as RelayTarget;
    const { socket, head, headers, onJoin } = handshake;
    ctx.remove(RELAY_HEADER);
    headers.push(`${RELAY_HEADER}: ${relay}`);
    for (const [name, value] of Object.entries(ctx.response.headers)) headers.push(`${name}: ${value}`);
    let joined = false;
    // The answer and the first frame go out together.
    socket.cork();
    this.#server.handleUpgrade(ctx.req, socket, head, (ws) => {
      joined = true;
      onJoin();
      this.#join(ws, socket, handler);
    });
    socket.uncork();
    // A client that is gone by now, or whose handshake is malformed, never joins.
    if (!joined) this.#processes.exit(handler, 'normal');
    // For the request metrics only: the answer was written to the socket.
    const { error } = handshake;
    ctx.status = joined ? 101 : (error?.status ?? CLIENT_CLOSED_REQUEST);
    ctx.state.error = error?.message;
    this.metrics.upgrades.count(joined ? 'accepted' : 'handshake not completed');
  };

  /** Sends one message to all of `clients`: framed once, the same bytes to each. */
  broadcast(clients: Iterable<Pid>, message: WsSend): void {
    const frame = textFrame(message.data);
    for (const client of clients) this.#connections.get(client)?.tick(frame);
  }

  /** Closes every connection, and cuts off those that are still there when `deadline` is over. */
  async close(deadline: Promise<void>): Promise<void> {
    clearInterval(this.#timer);
    this.#closing ??= Promise.withResolvers();
    for (const socket of this.#unjoined.keys()) socket.destroy();
    for (const connection of this.#connections.values()) connection.close(closeCodes.shuttingDown);
    if (this.#connections.size === 0) return;
    await Promise.race([this.#closing.promise, deadline]);
    for (const connection of this.#connections.values()) connection.terminate();
  }

  #join(ws: WebSocket, socket: Duplex, handler: Pid): void {
    const processes = this.#processes;
    this.#endHandshake(socket);
    const client = processes.spawn('client', (pid) => {
      const connection = new Connection(ws, socket, {
        maxMessagesPerSecond: this.#maxMessagesPerSecond,
        metrics: this.metrics,
        onMessage: (data) => processes.send(handler, { topic: 'ws.message', data }),
        onClose: (code) => this.#leave(pid, handler, code),
      });
      this.#connections.set(pid, connection);
      return connection;
    });
    processes.monitor(handler, (reason) => this.#connections.get(client)?.close(closeCodeOf(reason)));
    processes.send(handler, { topic: 'ws.join', client_pid: client });
  }

  #leave(client: Pid, handler: Pid, code: number): void {
    this.#connections.delete(client);
    this.metrics.closes.count(String(code));
    if (this.#connections.size === 0) this.#closing?.resolve();
    this.#processes.exit(client, 'normal');
    this.#processes.send(handler, { topic: 'ws.leave', reason: `closed with code ${code}` });
  }

  #check(): void {
    const now = performance.now();
    for (const connection of this.#connections.values()) connection.check(now, this.#clientTimeouts);
  }

  #endHandshake(socket: Duplex): void {
    clearTimeout(this.#unjoined.get(socket));
    this.#unjoined.delete(socket);
  }
}

/** Close code for a client whose handler has ended. */
function closeCodeOf(reason: ExitReason): CloseCode {
  return reason === 'normal' || reason instanceof Error ? closeCodes.handlerFailed : reason;
}

function destroy(this: Duplex): void {
  this.destroy();
}
