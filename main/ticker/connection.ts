import { randomBytes } from 'node:crypto';
import type { Duplex } from 'node:stream';
import type { WebSocket } from 'ws';
import type { LifecycleMessage } from '../../workers/messages.ts';
import { CounterByLabel } from '../metrics/counter-by-label.ts';
import { type CloseCode, closeCodes } from './close-codes.ts';
import { textFrame } from './frame.ts';
import type { Process } from './pid-registry.ts';
import { TokenBucket } from './token-bucket.ts';

export interface ClientTimeouts {
  /** Longest time without a drain of a slow client's socket. Then it is closed. */
  slowMs: number;
  /** Time from a client's last pong to the next ping, and longest time to the answer. */
  pingMs: number;
}

export const clientTimeouts: ClientTimeouts = { slowMs: 30_000, pingMs: 30_000 };

/** Counters of all connections of the price stream. */
export class StreamMetrics {
  /** Text frames written to sockets. */
  framesSent = 0;
  /** Ticks not sent to slow clients because a newer tick replaced them. */
  framesSkipped = 0;
  /** Handshakes by outcome: `accepted`, or the reason for the failure. */
  readonly upgrades = new CounterByLabel(['accepted']);
  /** Closed connections by close code. */
  readonly closes = new CounterByLabel();
}

export interface ConnectionOptions {
  maxMessagesPerSecond: number;
  metrics: StreamMetrics;
  onMessage: (data: string) => void;
  onClose: (code: number) => void;
}

const PING_BYTES = 8;

/**
 * The server's end of a WebSocket, and the only writer to its socket, so frames stay in order and backpressure is noticed.
 * A client is slow while more than the socket's high-water mark (`SOCKET_BUFFER`) is buffered. Nothing is read from a slow client, so that
 * it causes no further responses, and ticks are conflated: only the newest is sent on drain. The kernel buffers megabytes more, which is
 * why each ping must be answered: a client that does not read does not see it.
 */
export class Connection implements Process {
  readonly #ws: WebSocket;
  readonly #socket: Duplex;
  readonly #tokens: TokenBucket;
  readonly #metrics: StreamMetrics;
  #newestTick: Buffer | undefined;
  #slowSince: number | undefined;
  /** Data of the unanswered ping. */
  #ping: Buffer | undefined;
  #isFlooding = false;
  /** Time of the last ping or pong. */
  #pingSince = performance.now();

  constructor(ws: WebSocket, socket: Duplex, options: ConnectionOptions) {
    const { maxMessagesPerSecond, metrics, onMessage, onClose } = options;
    this.#ws = ws;
    this.#socket = socket;
    this.#tokens = new TokenBucket(maxMessagesPerSecond);
    this.#metrics = metrics;
    socket.on('drain', () => this.#onDrain());
    ws.on('message', (data, isBinary) => {
      if (this.#admit() && !isBinary) onMessage(data.toString());
    });
    ws.on('ping', (data) => {
      if (this.#admit()) this.#answerPing(data);
    });
    ws.on('pong', (data) => {
      if (this.#admit()) this.#onPong(data);
    });
    // The library closes the connection with the error's code, and `close` follows.
    ws.on('error', () => {});
    ws.once('close', onClose);
  }

  receive(message: LifecycleMessage): void {
    if (message.topic === 'ws.send') this.#write(textFrame(message.data));
  }

  /** Sends a tick that was framed for all clients. A slow client gets only the newest, because each tick is a complete snapshot. */
  tick(frame: Buffer): void {
    if (this.#slowSince === undefined) {
      this.#write(frame);
      return;
    }
    if (this.#newestTick !== undefined) this.#metrics.framesSkipped += 1;
    this.#newestTick = frame;
  }

  /** Pings an idle client and ends a dead or slow one. To be called about once a second. @param now `performance.now()` */
  check(now: number, { slowMs, pingMs }: ClientTimeouts): void {
    if (this.#slowSince !== undefined) {
      // No frames are read from a slow client, so its pong would not be seen. It receives the close code if it reads again in time.
      if (now - this.#slowSince >= slowMs) this.close(closeCodes.tooSlow);
    } else if (now - this.#pingSince >= pingMs) {
      if (this.#ping !== undefined) this.terminate();
      else this.#sendPing(now);
    }
  }

  /** Starts the closing handshake. The library terminates a client that does not answer it. */
  close({ code, reason }: CloseCode): void {
    this.#newestTick = undefined;
    this.#ws.resume();
    this.#ws.close(code, reason);
  }

  terminate(): void {
    this.#ws.terminate();
  }

  #sendPing(now: number): void {
    // Random, so that a pong proves that the client has read everything before the ping.
    this.#ping = randomBytes(PING_BYTES);
    this.#pingSince = now;
    this.#ws.ping(this.#ping);
  }

  /** Counts a message, ping or pong of the client, and closes the connection past the limit. @returns whether to handle it */
  #admit(): boolean {
    // The last packet may hold thousands of further frames.
    if (this.#isFlooding) return false;
    if (this.#tokens.take(performance.now())) return true;
    this.#isFlooding = true;
    this.close(closeCodes.tooManyMessages);
    // The client's close frame is not awaited, so that the rest of the flood is not read.
    this.#ws.pause();
    this.#socket.end();
    return false;
  }

  #answerPing(data: Buffer): void {
    if (this.#ws.readyState !== this.#ws.OPEN) return;
    this.#ws.pong(data);
    if (this.#socket.writableNeedDrain) this.#becomeSlow();
  }

  #onPong(data: Buffer): void {
    if (!this.#ping?.equals(data)) return;
    this.#ping = undefined;
    this.#pingSince = performance.now();
  }

  #write(frame: Buffer): void {
    if (this.#ws.readyState !== this.#ws.OPEN) return;
    this.#metrics.framesSent += 1;
    if (!this.#socket.write(frame)) this.#becomeSlow();
  }

  #becomeSlow(): void {
    this.#slowSince ??= performance.now();
    this.#ws.pause();
  }

  #onDrain(): void {
    if (this.#slowSince === undefined) return;
    this.#slowSince = undefined;
    const tick = this.#newestTick;
    this.#newestTick = undefined;
    if (tick !== undefined) this.#write(tick);
    if (this.#slowSince === undefined && this.#ws.readyState === this.#ws.OPEN) {
      // The client can answer a ping again from now on.
      this.#pingSince = performance.now();
      this.#ws.resume();
    }
  }
}
