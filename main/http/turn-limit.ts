import type { ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { oncePerTurn } from '../../workers/shared/clock.ts';
import { HttpError } from './errors.ts';

/** Maximum cost of the work that a {@link TurnLimit} begins in one event loop turn, in bytes to process. */
export const TURN_BYTES = 256 * 1024;
export const MIN_COST_BYTES = 1024;

interface Waiting {
  cost: number;
  response: Pick<ServerResponse, 'closed'> | undefined;
  begin: () => void;
  refuse: (error: HttpError) => void;
}

/** Limits the total cost of the work begun in one event loop turn, so that ticks and health checks run in between. */
export class TurnLimit {
  readonly #limit: number;
  readonly #waiting: Waiting[] = [];
  readonly #scheduleNextTurn = oncePerTurn(() => this.#startTurn());

  /** @param limit maximum total cost per event loop turn; only the last piece of work may exceed it */
  constructor(limit = TURN_BYTES) {
    this.#limit = limit;
  }

  /**
   * Waits until a request may be processed. Requests are processed in call order.
   *
   * @param cost processing cost in bytes, for example the body size; at least {@link MIN_COST_BYTES} are counted
   * @param response if given, a request whose client has left is refused with `bad request` and costs nothing
   */
  enter(cost = 0, response?: Waiting['response']): Promise<void> {
    return new Promise((begin, refuse) => {
      this.#waiting.push({ cost: Math.max(cost, MIN_COST_BYTES), response, begin, refuse });
      this.#scheduleNextTurn();
    });
  }

  #startTurn(): void {
    let count = 0;
    for (let spent = 0; spent < this.#limit && count < this.#waiting.length; count++) {
      const { cost, response, begin, refuse } = this.#waiting[count] as Waiting;
      if (response?.closed) {
        refuse(new HttpError('badRequest'));
        continue;
      }
      spent += cost;
      begin();
    }
    this.#waiting.splice(0, count);
    if (this.#waiting.length > 0) this.#scheduleNextTurn();
  }
}

/** Time in milliseconds that a listener's requests may take in one event loop turn until the listener stops reading. */
export const READING_MS = 10;

/** Maximum number of addresses, and of connections of each, that are resumed in one event loop turn. */
const MAX_RESUMED = 64;

const paused = new WeakSet<Duplex>();

/** Node resumes a connection whenever the app reads from a request's body. */
function stayPaused(this: Duplex): void {
  if (paused.has(this)) this.pause();
}

/**
 * Limits the time that a listener spends on received data in one event loop turn. Node handles all data that has
 * arrived on all connections in one turn, and a packet of 64 KiB can take 35 ms, with 3,600 requests or 10,900 chunks.
 */
export class ReadingLimit {
  readonly #addresses = new Map<Duplex, string>();
  /** Paused connections by address. An address that exceeds the limit waits until all others have had a turn. */
  readonly #waiting = new Map<string, Duplex[]>();
  /** Time of the turn's first request or body data. */
  #turnStart: number | undefined;
  /** Whether the connections were paused in this turn. */
  #isOver = false;
  /** Number of addresses to resume in the next turn. Doubles in each turn within the limit. */
  #resumable = MAX_RESUMED;
  readonly #scheduleNextTurn = oncePerTurn(() => this.#startTurn());

  add(socket: Duplex, address: string): void {
    this.#addresses.set(socket, address);
    socket.on('resume', stayPaused);
  }

  delete(socket: Duplex): void {
    this.#addresses.delete(socket);
    socket.off('resume', stayPaused);
    paused.delete(socket);
  }

  /** Must be called for each request, and for the data of each large body. */
  readonly check = (): void => {
    const now = performance.now();
    this.#turnStart ??= now;
    this.#scheduleNextTurn();
    if (!this.#isOver && now - this.#turnStart >= READING_MS) this.#pauseAll();
  };

  #pauseAll(): void {
    this.#isOver = true;
    for (const [socket, address] of this.#addresses) {
      // Node itself resumes a socket that it paused for backpressure.
      if (socket.isPaused()) continue;
      socket.pause();
      paused.add(socket);
      const sockets = this.#waiting.get(address);
      if (sockets === undefined) this.#waiting.set(address, [socket]);
      else sockets.push(socket);
    }
  }

  #startTurn(): void {
    this.#resumable = this.#isOver ? 1 : Math.min(MAX_RESUMED, 2 * this.#resumable);
    this.#turnStart = undefined;
    this.#isOver = false;
    let resumed = 0;
    for (const [address, sockets] of this.#waiting) {
      if (++resumed > this.#resumable) break;
      this.#waiting.delete(address);
      for (const socket of sockets.splice(0, MAX_RESUMED)) if (paused.delete(socket)) socket.resume();
      if (sockets.length > 0) this.#waiting.set(address, sockets);
    }
    if (this.#waiting.size > 0) this.#scheduleNextTurn();
  }
}
