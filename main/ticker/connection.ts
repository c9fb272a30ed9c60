import { randomBytes } from 'node:crypto';
import type { Duplex } from 'node:stream';
import { type RawData, WebSocket } from 'ws';
import type { LifecycleMessage, Pid } from '../../workers/messages.ts';
import { TokenBucket } from '../http/token-bucket.ts';
import { CounterByLabel } from '../metrics/counter-by-label.ts';
import { type CloseCode, closeCodes } from './close-codes.ts';
import { textFrame } from './frame.ts';
import type { ExitReason, Monitor, PidRegistry, Process } from './pid-registry.ts';

export interface ClientTimeouts {
  /** Time that a slow client's socket may take to drain before the client is disconnected. */
  slowMs: number;
  /** Time from a pong to the next ping, and from an unanswered ping to the disconnection. */
  pingMs: number;
}

export const clientTimeouts: ClientTimeouts = { slowMs: 30_000, pingMs: 30_000 };

/** Burst size: a client may send the messages of this many seconds at once. */
const BURST_SECONDS = 2;

export class StreamMetrics {
  framesSent = 0;
  /** Number of ticks not sent to slow clients because a newer tick replaced them. */
  framesSkipped = 0;
  /** Number of handshakes by outcome: `accepted`, or the reason for the failure. */
  readonly upgrades = new CounterByLabel(['accepted']);
  readonly closes = new CounterByLabel();
}

const PING_BYTES = 8;

/** Part of the relay that its connections share. */
export interface ConnectionOwner {
  readonly processes: Pick<PidRegistry, 'send'>;
  readonly metrics: StreamMetrics;
  readonly maxMessagesPerSecond: number;
  onClose(connection: Connection, code: number): void;
}

/** WebSocket of a {@link Connection}. A new one has no connection until it has joined. */
export class ClientSocket extends WebSocket {
  connection: Connection | undefined;
}

/**
 * Server side of a WebSocket, and the actor of its client. A client is slow while its socket buffers more than the
 * high-water mark. The server does not read from a slow client and keeps only the newest tick, which it sends when the
 * socket drains.
 */
export class Connection implements Process, Monitor {
  readonly pid: Pid;
  readonly handler: Pid;
  readonly #ws: WebSocket;
  readonly #socket: Duplex;
  readonly #owner: ConnectionOwner;
  readonly #tokens: TokenBucket;
  #newestTick: Buffer | undefined;
  #slowSince: number | undefined;
  #unansweredPing: Buffer | undefined;
  #isFlooding = false;
  /** Start of the ping timeout (`performance.now()`): the last ping, pong, or end of a client's slowness. */
  #pingSince = performance.now();

  constructor(pid: Pid, handler: Pid, ws: ClientSocket, socket: Duplex, owner: ConnectionOwner) {
    this.pid = pid;
    this.handler = handler;
    this.#ws = ws;
    this.#socket = socket;
    this.#owner = owner;
    this.#tokens = new TokenBucket(owner.maxMessagesPerSecond, BURST_SECONDS);
    ws.connection = this;
    ws.on('message', onMessage);
    ws.on('ping', onPing);
    ws.on('pong', onPong);
    ws.on('error', onError);
    ws.on('close', onClose);
  }

  receive(message: LifecycleMessage): void {
    if (message.topic === 'ws.send') this.#write(textFrame(message.data));
  }

  /** Sends an encoded tick. A slow client gets only the newest tick, because every tick contains all prices. */
  tick(frame: Buffer): void {
    if (this.#slowSince === undefined) {
      this.#write(frame);
      return;
    }
    if (this.#newestTick !== undefined) this.#owner.metrics.framesSkipped += 1;
    this.#newestTick = frame;
  }

  /** Sends a ping when due, and disconnects a dead or slow client. Must be called about once a second. */
  check(now: number, { slowMs, pingMs }: ClientTimeouts): void {
    if (this.#slowSince !== undefined) {
      // A slow client has its own timeout and gets no pings, because the server would not read the pongs.
      if (now - this.#slowSince >= slowMs) this.close(closeCodes.tooSlow);
    } else if (now - this.#pingSince >= pingMs) {
      if (this.#unansweredPing !== undefined) this.terminate();
      else this.#sendPing(now);
    }
  }

  /** Starts the closing handshake. The `ws` library terminates the connection if the client does not answer. */
  close({ code, reason }: CloseCode): void {
    this.#newestTick = undefined;
    this.#ws.resume();
    this.#ws.close(code, reason);
  }

  terminate(): void {
    this.#ws.terminate();
  }

  onMessage(data: RawData, isBinary: boolean): void {
    if (!this.#admit() || isBinary) return;
    this.#owner.processes.send(this.handler, { topic: 'ws.message', data: data.toString() });
  }

  onPing(data: Buffer): void {
    if (!this.#admit() || this.#ws.readyState !== this.#ws.OPEN) return;
    this.#ws.pong(data);
    if (this.#socket.writableNeedDrain) this.#becomeSlow();
  }

  onPong(data: Buffer): void {
    if (!this.#admit() || !this.#unansweredPing?.equals(data)) return;
    this.#unansweredPing = undefined;
    this.#pingSince = performance.now();
  }

  onClose(code: number): void {
    this.#owner.onClose(this, code);
  }

  /** Closes the connection when its handler ends. */
  onExit(_handler: Pid, reason: ExitReason): void {
    this.close(reason === 'normal' || reason instanceof Error ? closeCodes.handlerFailed : reason);
  }

  #sendPing(now: number): void {
    // Random bytes, so that a pong proves that the client has read everything sent before the ping.
    this.#unansweredPing = randomBytes(PING_BYTES);
    this.#pingSince = now;
    this.#ws.ping(this.#unansweredPing);
  }

  /** Applies the rate limit to a message, ping or pong. Returns whether to handle it. */
  #admit(): boolean {
    // One packet can contain thousands of frames, so all frames after the limit was exceeded are ignored.
    if (this.#isFlooding) return false;
    if (this.#tokens.take(performance.now()) === 0) return true;
    this.#isFlooding = true;
    this.close(closeCodes.tooManyMessages);
    // Reading stops without waiting for the client's close frame, so that the rest of the flood is not processed.
    this.#ws.pause();
    this.#socket.end();
    return false;
  }

  #write(frame: Buffer): void {
    if (this.#ws.readyState !== this.#ws.OPEN) return;
    this.#owner.metrics.framesSent += 1;
    if (!this.#socket.write(frame)) this.#becomeSlow();
  }

  #becomeSlow(): void {
    if (this.#slowSince !== undefined) return;
    this.#slowSince = performance.now();
    this.#socket.once('drain', () => this.#onDrain());
    this.#ws.pause();
  }

  #onDrain(): void {
    this.#slowSince = undefined;
    const tick = this.#newestTick;
    this.#newestTick = undefined;
    if (tick !== undefined) this.#write(tick);
    if (this.#slowSince === undefined && this.#ws.readyState === this.#ws.OPEN) {
      // Pongs were not read while the client was slow, so the ping timeout starts again.
      this.#pingSince = performance.now();
      this.#ws.resume();
    }
  }
}

// The listeners are shared by all connections, because closures for each of them would take 1 kB per client.

function onMessage(this: WebSocket, data: RawData, isBinary: boolean): void {
  connectionOf(this).onMessage(data, isBinary);
}

function onPing(this: WebSocket, data: Buffer): void {
  connectionOf(this).onPing(data);
}

function onPong(this: WebSocket, data: Buffer): void {
  connectionOf(this).onPong(data);
}

function onClose(this: WebSocket, code: number): void {
  connectionOf(this).onClose(code);
}

/** Ignores an error: the `ws` library then closes the connection with the appropriate code and emits `close`. */
function onError(): void {}

function connectionOf(ws: WebSocket): Connection {
  return (ws as ClientSocket).connection as Connection;
}
