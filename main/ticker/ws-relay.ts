import { type IncomingMessage, type RequestListener, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { Middleware } from 'koa';
import { type Server, WebSocketServer } from 'ws';
import type { Clock } from '../../workers/shared/clock.ts';
import { type ConnectionBounds, ConnectionLimiter } from '../http/connection-limiter.ts';
import { HttpError } from '../http/errors.ts';
import { rawResponse } from '../http/listener.ts';
import { MIN_COST_BYTES, TurnLimit } from '../http/turn-limit.ts';
import { CLIENT_CLOSED_REQUEST } from '../metrics/request-metrics.ts';
import { NUMBERED_PROTOCOL, SUBPROTOCOLS } from './auth.ts';
import {
  type ClientTimeouts,
  Connection,
  clientTimeouts,
  encodeTick,
  type Replayed,
  StreamMetrics,
  type TickMessage,
} from './connection.ts';
import { closeCodes, type Pid, type PidRegistry } from './pid-registry.ts';

/** Response header in which the app names the handler of a new WebSocket connection. */
export const RELAY_HEADER = 'X-WS-Relay';

export interface RelayTarget {
  target_pid: Pid;
  metadata: { user_id: string; auth_time: number };
}

/** High-water mark of a client's socket in bytes. A client whose socket buffers more counts as slow. */
export const SOCKET_BUFFER = 8 * 1024;

/** Maximum size of a message. A `subscribe` with 64 symbols has at most 2.4 KiB. */
const MAX_MESSAGE_BYTES = 4 * 1024;
const MAX_FRAGMENTS = 16;
/** Maximum number of buffered chunks per frame, because a small chunk can take a hundred times its size in memory. */
const MAX_BUFFERED_CHUNKS = 64;
/** Maximum number of handshakes that begin in one event loop turn. One takes about 0.3 ms. */
export const HANDSHAKES_PER_TURN = 32;
const CLOSING_HANDSHAKE_TIMEOUT_MS = 5_000;
const CHECK_INTERVAL_MS = 1_000;

export interface RelayLimits extends ConnectionBounds {
  /** Maximum average rate of a client's messages, pings and pongs together. */
  maxMessagesPerSecond: number;
  timeouts?: Partial<ClientTimeouts>;
}

/**
 * Owns the sockets of the WebSocket clients. The Koa app handles a handshake like any other request. If the response
 * has the {@link RELAY_HEADER}, the relay completes the handshake; otherwise the client gets the response.
 */
export class Relay {
  readonly metrics = new StreamMetrics();
  readonly actors: PidRegistry;
  readonly clock: Clock;
  readonly maxMessagesPerSecond: number;
  readonly replayTurns = new TurnLimit();
  readonly #timeouts: ClientTimeouts;
  readonly #limiter: ConnectionLimiter;
  readonly #turns = new TurnLimit(HANDSHAKES_PER_TURN * MIN_COST_BYTES);
  readonly #connections = new Map<Pid, Connection>();
  readonly #handshakes = new WeakMap<
    IncomingMessage,
    { socket: Socket; head: Buffer; headers: string[]; onJoin: (socket: Duplex) => void; error?: HttpError }
  >();
  /** Time of each upgrade request whose socket has not joined. */
  readonly #unjoined = new Map<Duplex, number>();
  readonly #server: Server<typeof Connection>;
  #cancelTimer: () => void;
  #closing: PromiseWithResolvers<void> | undefined;

  constructor(actors: PidRegistry, limits: RelayLimits, clock: Clock) {
    this.actors = actors;
    this.clock = clock;
    this.maxMessagesPerSecond = limits.maxMessagesPerSecond;
    this.#timeouts = { ...clientTimeouts, ...limits.timeouts };
    this.#limiter = new ConnectionLimiter(limits);
    // Not a literal in the call, because the type definitions lack some of the options.
    const options = {
      noServer: true,
      WebSocket: Connection,
      // With `false`, ws 8.23.0 would throw after some invalid frames.
      allowSynchronousEvents: true,
      clientTracking: false,
      autoPong: false,
      perMessageDeflate: false,
      maxPayload: MAX_MESSAGE_BYTES,
      maxFragments: MAX_FRAGMENTS,
      maxBufferedChunks: MAX_BUFFERED_CHUNKS,
      closeTimeout: CLOSING_HANDSHAKE_TIMEOUT_MS,
      // Only one subprotocol is ever selected, because another offered subprotocol may contain the client's token.
      handleProtocols: (offered: Set<string>): string | false =>
        SUBPROTOCOLS.find((each) => offered.has(each)) ?? false,
    };
    this.#server = new WebSocketServer<typeof Connection>(options);
    this.#server.on('headers', (headers, request) => {
      headers.push(...(this.#handshakes.get(request)?.headers ?? []));
    });
    this.#server.on('wsClientError', (_error, socket, request) => {
      const error = new HttpError('invalidHandshake');
      const handshake = this.#handshakes.get(request);
      if (handshake !== undefined) handshake.error = error;
      socket.end(rawResponse(error.status, { error: error.message }, { 'Sec-WebSocket-Version': '13' }));
    });
    this.#cancelTimer = clock.timer(CHECK_INTERVAL_MS, () => this.#check());
  }

  get size(): number {
    return this.#connections.size;
  }

  get slotsTaken(): number {
    return this.#limiter.taken;
  }

  /** Counts a handshake against the connection limits. Returns false for another request. @throws {HttpError} */
  acquire(request: IncomingMessage, address: string): boolean {
    const handshake = this.#handshakes.get(request);
    if (handshake !== undefined) this.#limiter.acquire(handshake.socket, address);
    return handshake !== undefined;
  }

  /** Returns a listener for the server's `upgrade` event. @param onJoin called when the handshake is complete */
  upgradeListener(handle: RequestListener, onJoin: (socket: Duplex) => void) {
    return (request: IncomingMessage, socket: Socket, head: Buffer) => {
      socket.on('error', destroy);
      // The error response to a timed-out request may already have ended the socket.
      if (this.#closing !== undefined || socket.writableEnded) {
        socket.destroy();
        return;
      }
      this.#unjoined.set(socket, this.clock.elapsed());
      this.#handshakes.set(request, { socket, head, headers: [], onJoin });
      // Gets the socket only if the handshake is refused, because its listeners would stay on the socket of a WebSocket.
      const response = new ServerResponse(request);
      response.shouldKeepAlive = false;
      void this.#turns.enter().then(() => {
        if (!socket.destroyed) handle(request, response);
      });
    };
  }

  /** Outermost middleware. Completes a WebSocket handshake if the router accepted it by setting {@link RELAY_HEADER}. */
  readonly completeHandshake: Middleware = async (ctx, next) => {
    await next();
    const handshake = this.#handshakes.get(ctx.req);
    if (handshake === undefined) return;
    const relay: unknown = ctx.res.getHeader(RELAY_HEADER);
    if (typeof relay !== 'string') {
      ctx.res.once('finish', () => handshake.socket.end());
      // A socket that has already closed would not close its response, and the memory of the response would stay charged.
      if (handshake.socket.closed) ctx.res.emit('close');
      else ctx.res.assignSocket(handshake.socket);
      this.metrics.upgrades.count(ctx.state.error ?? `answered ${ctx.status}`);
      return;
    }
    ctx.respond = false;
    const { target_pid: handler } = JSON.parse(relay) as RelayTarget;
    const { socket, head, headers, onJoin } = handshake;
    ctx.remove(RELAY_HEADER);
    headers.push(`${RELAY_HEADER}: ${relay}`);
    for (const name of ctx.res.getHeaderNames()) headers.push(`${name}: ${ctx.res.getHeader(name)}`);
    let joined = false;
    // Corked, so that the handshake response and the first frame are sent together.
    socket.cork();
    this.#server.handleUpgrade(ctx.req, socket, head, (connection) => {
      joined = true;
      onJoin(socket);
      this.#join(connection, socket, handler);
    });
    socket.uncork();
    // The handshake fails if the client has disconnected or the request is malformed.
    if (!joined) this.actors.exit(handler, 'normal');
    // The response is already on the socket, so status and error are set only for the request metrics.
    const { error } = handshake;
    ctx.status = joined ? 101 : (error?.status ?? CLIENT_CLOSED_REQUEST);
    ctx.state.error = error?.message;
    this.metrics.upgrades.count(joined ? 'accepted' : 'handshake not completed');
  };

  broadcast(clients: Iterable<Pid>, message: TickMessage): void {
    const tick = encodeTick(message);
    for (const client of clients) this.#connections.get(client)?.tick(tick);
  }

  /** See `Connection.replay`. */
  replay(client: Pid, messages: Iterator<Replayed>, seq: number): void {
    this.#connections.get(client)?.replay(messages, seq);
  }

  /** Closes all connections, and terminates connections that are still open at `deadline`. */
  async close(deadline: Promise<void>): Promise<void> {
    this.#cancelTimer();
    this.#closing ??= Promise.withResolvers();
    for (const socket of this.#unjoined.keys()) socket.destroy();
    for (const connection of this.#connections.values()) connection.closeWith(closeCodes.shuttingDown);
    if (this.#connections.size === 0) return;
    await Promise.race([this.#closing.promise, deadline]);
    for (const connection of this.#connections.values()) connection.terminate();
  }

  #join(connection: Connection, socket: Duplex, handler: Pid): void {
    const { actors } = this;
    this.#unjoined.delete(socket);
    socket.off('error', destroy);
    const client = actors.spawn('client', (pid) => {
      connection.join(pid, handler, socket, this);
      this.#connections.set(pid, connection);
      actors.monitor(handler, connection);
      return connection;
    });
    const { protocol } = connection;
    actors.send(handler, { topic: 'ws.join', client_pid: client, ...(protocol === NUMBERED_PROTOCOL && { protocol }) });
  }

  onClose({ pid, handler }: Connection, code: number): void {
    this.#connections.delete(pid);
    this.metrics.closes.count(String(code));
    if (this.#connections.size === 0) this.#closing?.resolve();
    this.actors.exit(pid, 'normal');
    this.actors.send(handler, { topic: 'ws.leave', reason: `closed with code ${code}` });
  }

  #check(): void {
    const now = this.clock.elapsed();
    for (const connection of this.#connections.values()) connection.check(now, this.#timeouts);
    for (const [socket, since] of this.#unjoined) {
      if (now - since >= this.#timeouts.handshakeMs) socket.destroy();
      if (socket.destroyed) this.#unjoined.delete(socket);
    }
    if (this.#closing === undefined) this.#cancelTimer = this.clock.timer(CHECK_INTERVAL_MS, () => this.#check());
  }
}

function destroy(this: Duplex): void {
  this.destroy();
}
