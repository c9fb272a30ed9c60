import { randomBytes } from 'node:crypto';
import type { Duplex } from 'node:stream';
import type { WebSocket } from 'ws';
import type { LifecycleMessage } from '../../workers/messages.ts';
import { type CloseCode, closeCodes } from './close-codes.ts';
import { textFrame } from './frame.ts';
import { MessageRate } from './message-rate.ts';
import type { Process } from './processes.ts';
import type { StreamFigures } from './stream-figures.ts';

export interface Patience {
  /** How long a client may take nothing of what waits for it until its connection is closed. */
  stuckMs: number;
  /** How long after its last answer a client is pinged, and how long it has for the next. */
  pingMs: number;
}

export const patience: Patience = { stuckMs: 30_000, pingMs: 30_000 };

const PING_BYTES = 8;

/**
 * One client's end of a WebSocket: the only place that writes to its socket while it is open, so that everything keeps
 * its order and nothing piles up unseen.
 *
 * What waits for a slow client is bounded: past the socket's high-water mark (`SOCKET_BUFFER`) nothing more is
 * read from it, so that it causes no more answers, and ticks are skipped; the newest one goes out on drain. The system
 * has buffers of its own, megabytes of them: what waits there is bounded by the pings, which only a reader answers.
 */
export class Connection implements Process {
  readonly #ws: WebSocket;
  readonly #socket: Duplex;
  readonly #rate: MessageRate;
  readonly #figures: StreamFigures;
  #newestTick: Buffer | undefined;
  #slowSince: number | undefined;
  /** What the client was pinged with and has not answered. */
  #ping: Buffer | undefined;
  /** When it was pinged, or gave its last answer. */
  #pingSince = performance.now();

  /** @param figures where its frames are counted, with all others */
  constructor(ws: WebSocket, socket: Duplex, maxMessagesPerSecond: number, figures: StreamFigures) {
    this.#ws = ws;
    this.#socket = socket;
    this.#rate = new MessageRate(maxMessagesPerSecond);
    this.#figures = figures;
    socket.on('drain', () => this.#onDrain());
    ws.on('ping', (data) => this.#onPing(data));
    ws.on('pong', (data) => this.#onPong(data));
  }

  /** Delivers a `ws.send`. */
  receive(message: LifecycleMessage): void {
    if (message.topic === 'ws.send') this.#write(textFrame(message.data));
  }

  /** Sends a tick that was framed for all; a tick is a whole snapshot, so only the newest is worth keeping. */
  tick(frame: Buffer): void {
    if (this.#slowSince === undefined) {
      this.#write(frame);
      return;
    }
    if (this.#newestTick !== undefined) this.#figures.framesSkipped += 1;
    this.#newestTick = frame;
  }

  /**
   * Counts what the client sent: a message, or a ping or pong of the protocol.
   *
   * @returns whether it is listened to; a client that sends too many is closed, and read from no more
   */
  accepts(): boolean {
    if (this.#rate.allows(performance.now())) return true;
    this.close(closeCodes.tooManyMessages);
    // Without reading on until the client's answer, so that its flood costs nothing more.
    this.#ws.pause();
    this.#socket.end();
    return false;
  }

  /** Looks after a client that is stuck or does not answer; to be called about once a second, with `performance.now()`. */
  check(now: number, { stuckMs, pingMs }: Patience): void {
    if (this.#slowSince !== undefined) {
      // It is not read from while it is slow, so that it cannot answer.
      if (now - this.#slowSince >= stuckMs) this.#giveUp();
    } else if (now - this.#pingSince >= pingMs) {
      if (this.#ping !== undefined) this.terminate();
      else this.#sendPing(now);
    }
  }

  /** Starts the closing handshake; the WebSocket library ends a client that does not answer it. */
  close({ code, reason }: CloseCode): void {
    this.#newestTick = undefined;
    this.#ws.resume();
    this.#ws.close(code, reason);
  }

  terminate(): void {
    this.#ws.terminate();
  }

  #sendPing(now: number): void {
    // Not to be guessed: the answer proves that the client has read all that came before.
    this.#ping = randomBytes(PING_BYTES);
    this.#pingSince = now;
    this.#ws.ping(this.#ping);
  }

  #onPing(data: Buffer): void {
    if (!this.accepts() || this.#ws.readyState !== this.#ws.OPEN) return;
    this.#ws.pong(data);
    if (this.#socket.writableNeedDrain) this.#becomeSlow();
  }

  #onPong(data: Buffer): void {
    if (!this.accepts() || !this.#ping?.equals(data)) return;
    this.#ping = undefined;
    this.#pingSince = performance.now();
  }

  #write(frame: Buffer): void {
    if (this.#ws.readyState !== this.#ws.OPEN) return;
    this.#figures.framesSent += 1;
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
      // Only now can it answer again.
      this.#pingSince = performance.now();
      this.#ws.resume();
    }
  }

  #giveUp(): void {
    // The code is for a client that begins to read again within the closing time.
    this.close(closeCodes.tooSlow);
  }
}
