import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { type ErrorName, HttpError } from './errors.ts';
import { rateLimitKey } from './rate-limit.ts';
import type { ReadingLimit } from './turn-limit.ts';

export interface ConnectionBounds {
  /** Includes unfinished WebSocket handshakes. */
  maxConnections: number;
  maxConnectionsPerAddress: number;
}

const RETRY_AFTER_SECONDS = '5';
const MIN_TIMEOUT_FACTOR = 0.1;

/** Limits connections in total and per address. A socket holds at most one slot. */
export class ConnectionLimiter {
  readonly #bounds: ConnectionBounds;
  readonly #byAddress = new Map<string, number>();
  readonly #addressBySocket = new Map<Duplex, string>();

  constructor(bounds: ConnectionBounds) {
    this.#bounds = bounds;
  }

  get taken(): number {
    return this.#addressBySocket.size;
  }

  /** Returns the error with which to refuse a connection from `address`, or undefined if no limit is reached. */
  refusal(address: string): ErrorName | undefined {
    const own = this.#byAddress.get(address) ?? 0;
    if (own >= this.#bounds.maxConnectionsPerAddress) return 'tooManyConnectionsFromAddress';
    return this.taken >= this.#bounds.maxConnections ? 'tooManyConnections' : undefined;
  }

  /** Checks that `address` may open another connection. @throws {HttpError} if a limit is reached */
  check(address: string): void {
    const error = this.refusal(address);
    if (error === undefined) return;
    const overload = error === 'tooManyConnections';
    throw new HttpError(error, { headers: { 'Retry-After': RETRY_AFTER_SECONDS }, overload });
  }

  /** Acquires a slot for `socket` until it closes, unless it has one or is closed. @throws {HttpError} if a limit is reached */
  acquire(socket: Duplex, address: string): void {
    if (socket.closed || this.#addressBySocket.has(socket)) return;
    this.check(address);
    this.hold(socket, address);
    socket.once('close', () => this.release(socket));
  }

  /** Acquires a slot until {@link release}, without checking the limits. The caller must call {@link refusal} first. */
  hold(socket: Duplex, address: string): void {
    this.#addressBySocket.set(socket, address);
    this.#byAddress.set(address, (this.#byAddress.get(address) ?? 0) + 1);
  }

  /** Releases the slot of a socket. Does nothing if the socket has no slot. */
  release(socket: Duplex): void {
    const address = this.#addressBySocket.get(socket);
    if (address === undefined) return;
    this.#addressBySocket.delete(socket);
    const left = (this.#byAddress.get(address) ?? 0) - 1;
    if (left > 0) this.#byAddress.set(address, left);
    else this.#byAddress.delete(address);
  }
}

/**
 * Limits the plain (non-WebSocket) connections per address and the time to read from them, and shortens the client
 * timeouts while more than half of these connections are in use.
 */
export function limitPlainConnections(
  server: Server,
  reading: ReadingLimit,
  times: { headers: number; request: number },
  { maxConnections = Number.POSITIVE_INFINITY, trustProxy = 0 }: { maxConnections?: number; trustProxy?: number },
) {
  /** Number of open connections, including WebSockets. */
  let open = 0;
  // A proxy opens the connections of all its clients from one address.
  const addressShare = trustProxy > 0 ? 1 : 0.5;
  const limiter = new ConnectionLimiter({
    maxConnections,
    get maxConnectionsPerAddress() {
      return Math.ceil(addressShare * available());
    },
  });
  const available = () => maxConnections - (open - limiter.taken);
  const timeoutFactor = () => {
    const free = available() > 0 ? 1 - limiter.taken / available() : 0;
    return Math.max(MIN_TIMEOUT_FACTOR, Math.min(1, 2 * free));
  };
  /** Also changes the timeouts of open connections, which Node checks against the server's current timeouts. */
  const adjust = () => {
    server.headersTimeout = Math.max(1, Math.round(times.headers * timeoutFactor()));
    server.requestTimeout = Math.max(1, Math.round(times.request * timeoutFactor()));
  };
  function onClose(this: Socket): void {
    limiter.release(this);
    reading.delete(this);
    open--;
    adjust();
  }
  server.on('connection', (socket: Socket) => {
    const address = rateLimitKey(socket.remoteAddress ?? '');
    if (limiter.refusal(address) !== undefined) {
      socket.destroy();
      return;
    }
    open++;
    limiter.hold(socket, address);
    reading.add(socket, address);
    socket.on('close', onClose);
    adjust();
  });
  return {
    /** Returns the factor (at most 1) by which timeouts are currently multiplied. */
    timeoutFactor,
    /** Stops counting a socket as a plain connection. */
    release(socket: Duplex): void {
      limiter.release(socket);
      adjust();
    },
  };
}

/** Maximum numbers of connections of each listener. `webSockets` are among those of the ticker. */
export type ConnectionShares = ReturnType<typeof shareDescriptors>;

/** Divides the open files of the process among the listeners. @throws {Error} that states the required limit */
export function shareDescriptors(openFiles: number, taskThreads: number) {
  const own = PROCESS_DESCRIPTORS + taskThreads * THREAD_DESCRIPTORS;
  const fewest = own + FEWEST_CONNECTIONS;
  if (openFiles < fewest) {
    throw new Error(`the limit of open files is ${openFiles}: raise it to at least ${fewest} (ulimit -n)`);
  }
  const connections = Math.min(openFiles, MOST_OPEN_FILES) - own;
  const admin = Math.min(Math.ceil(connections / 16), MAX_ADMIN_CONNECTIONS);
  const rest = connections - admin;
  const tasks = Math.min(Math.floor(rest / 8), Math.max(MAX_TASK_CONNECTIONS, Math.floor(rest / 16)));
  const ticker = rest - tasks;
  const webSockets = ticker - Math.min(Math.ceil(ticker / 8), MAX_RESERVED_FOR_HTTP);
  return { openFiles, ticker, webSockets, tasks, admin };
}

/** File descriptors that are neither connections nor used by worker threads: about 56, plus briefly open files. */
const PROCESS_DESCRIPTORS = 80;
/** File descriptors per worker thread: about 8, plus a reserve while a replacement thread starts. */
const THREAD_DESCRIPTORS = 10;
const FEWEST_CONNECTIONS = 32;

const MAX_ADMIN_CONNECTIONS = 100;
/** Maximum number of task service connections, unless a sixteenth of all non-admin connections is more. */
const MAX_TASK_CONNECTIONS = 1200;
const MAX_RESERVED_FOR_HTTP = 400;

/** Linux's default for `fs.nr_open`, used as an upper bound because the open-file limit may be Infinity. */
const MOST_OPEN_FILES = 1_048_576;

/** Returns the soft limit on open files, or Infinity. Node raises the soft limit to the hard limit at startup. */
export function openFilesLimit(): number {
  const { report } = process as unknown as { report: { excludeNetwork: boolean; getReport(): object } };
  const { excludeNetwork } = report;
  // Without `excludeNetwork`, `getReport` would make a reverse DNS lookup for each connection.
  report.excludeNetwork = true;
  const { userLimits } = report.getReport() as { userLimits?: { open_files?: { soft?: unknown } } };
  report.excludeNetwork = excludeNetwork;
  const soft = userLimits?.open_files?.soft;
  return typeof soft === 'number' ? soft : Number.POSITIVE_INFINITY;
}
