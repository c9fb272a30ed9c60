import type { Duplex } from 'node:stream';
import type { WebSocket } from 'ws';
import type { LifecycleMessage } from '../../workers/messages.ts';
import { type CloseCode, closeCodes } from './close-codes.ts';
import { textFrame } from './frame.ts';
import { MessageRate } from './message-rate.ts';
import type { Process } from './processes.ts';

export interface Patience {
  /** How long a client may take nothing of what waits for it until its connection is closed. */
  stuckMs: number;
  /** How long a client may send nothing until it is pinged, and then again until it is cut off. */
  silenceMs: number;
}

export const patience: Patience = { stuckMs: 30_000, silenceMs: 30_000 };

/**
 * One client's end of a WebSocket: the only place that writes to its socket while it is open, so that everything keeps
 * its order and nothing piles up unseen.
 *
 * What waits for a slow client is bounded: past the socket's high-water mark (`SOCKET_BUFFER`) nothing more is
 * read from it, so that it causes no more answers, and ticks are skipped; the newest one goes out on drain.
 */
export class Connection implements Process {
  readonly #ws: WebSocket;
  readonly #socket: Duplex;
  readonly #rate: MessageRate;
  #newestTick: Buffer | undefined;
  #slowSince: number | undefined;
  #heardAt = performance.now();
  #pingedAt: number | undefined;

  constructor(ws: WebSocket, socket: Duplex, maxMessagesPerSecond: number) {
    this.#ws = ws;
    this.#socket = socket;
    this.#rate = new MessageRate(maxMessagesPerSecond);
    socket.on('drain', () => this.#onDrain());
  }

  /** Delivers a `ws.send`. */
  receive(message: LifecycleMessage): void {
    if (message.topic === 'ws.send') this.#write(textFrame(message.data));
  }

  /** Sends a tick that was framed for all; a tick is a whole snapshot, so only the newest is worth keeping. */
  tick(frame: Buffer): void {
    if (this.#slowSince === undefined) this.#write(frame);
    else this.#newestTick = frame;
  }

  /**
   * Notes that the client sent a message, or a ping or pong of the protocol.
   *
   * @returns whether it is listened to; a client that sends too many is closed, and read from no more
   */
  heard(): boolean {
    const now = performance.now();
    this.#seenAlive(now);
    if (this.#rate.allows(now)) return true;
    this.close(closeCodes.tooManyMessages);
    // Without reading on until the client's answer, so that its flood costs nothing more.
    this.#ws.pause();
    this.#socket.end();
    return false;
  }

  /** Looks after a client that is stuck or silent; to be called about once a second, with `performance.now()`. */
  check(now: number, { stuckMs, silenceMs }: Patience): void {
    if (this.#slowSince !== undefined) {
      // It is not read from while it is slow, so its silence says nothing.
      if (now - this.#slowSince >= stuckMs) this.#giveUp();
    } else if (this.#pingedAt !== undefined) {
      if (now - this.#pingedAt >= silenceMs) this.terminate();
    } else if (now - this.#heardAt >= silenceMs) {
      this.#pingedAt = now;
      this.#ws.ping();
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

  /** Answers a ping of the protocol. */
  pong(data: Buffer): void {
    this.#ws.pong(data);
    if (this.#socket.writableNeedDrain) this.#becomeSlow();
  }

  #seenAlive(now: number): void {
    this.#heardAt = now;
    this.#pingedAt = undefined;
  }

  #write(frame: Buffer): void {
    if (this.#ws.readyState === this.#ws.OPEN && !this.#socket.write(frame)) this.#becomeSlow();
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
      this.#seenAlive(performance.now());
      this.#ws.resume();
    }
  }

  #giveUp(): void {
    // The code is for a client that begins to read again within the closing time.
    this.close(closeCodes.tooSlow);
  }
}
