import type { Duplex } from 'node:stream';
import type { WebSocket } from 'ws';
import type { LifecycleMessage } from '../../workers/messages.ts';
import { type CloseCode, closeCodes } from './close-codes.ts';
import { textFrame } from './frame.ts';
import type { Process } from './processes.ts';

export interface Patience {
  /** How long a client may take nothing of what waits for it until its connection is closed. */
  stuckMs: number;
  /** How long a client may send nothing until it is pinged, and then again until it is cut off. */
  silenceMs: number;
}

export const patience: Patience = { stuckMs: 30_000, silenceMs: 30_000 };

/**
 * One client's end of a WebSocket: the only place that writes messages to its socket, so that they keep their order.
 * (The WebSocket library answers protocol pings by itself, and cuts off a client that does not read the answers.)
 *
 * What waits for a slow client is bounded: past the socket's high-water mark (`SOCKET_BUFFER`) nothing more is
 * read from it, so that it causes no more answers, and ticks are skipped; the newest one goes out on drain.
 */
export class Connection implements Process {
  readonly #ws: WebSocket;
  readonly #socket: Duplex;
  #newestTick: Buffer | undefined;
  #slowSince: number | undefined;
  #heardAt = Date.now();
  #pingedAt: number | undefined;

  constructor(ws: WebSocket, socket: Duplex) {
    this.#ws = ws;
    this.#socket = socket;
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

  /** Notes that the client is alive. */
  heard(): void {
    this.#heardAt = Date.now();
    this.#pingedAt = undefined;
  }

  /** Looks after a client that is stuck or silent; to be called about once a second. */
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

  #write(frame: Buffer): void {
    if (this.#ws.readyState !== this.#ws.OPEN || this.#socket.write(frame)) return;
    this.#slowSince ??= Date.now();
    this.#ws.pause();
  }

  #onDrain(): void {
    if (this.#slowSince === undefined) return;
    this.#slowSince = undefined;
    const tick = this.#newestTick;
    this.#newestTick = undefined;
    if (tick !== undefined) this.#write(tick);
    if (this.#slowSince === undefined) {
      this.heard();
      this.#ws.resume();
    }
  }

  #giveUp(): void {
    // The code is for a client that begins to read again within the closing time.
    this.close(closeCodes.tooSlow);
  }
}
