import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { TurnLimit } from './turn-limit.ts';

const END_OF_HEADERS = '\r\n\r\n';

/** Maximum number of bytes of a chunked body parsed at once. Small, because pipelined requests may follow the body. */
const CHUNKED_PART_BYTES = 1024;

/** Maximum number of body bytes that a listener receives in one event loop turn. Copying 1 MiB takes about 2 ms. */
export const BODY_BYTES_PER_TURN = 1024 * 1024;

/** Factor by which data of a chunked body costs more, because parsing 64 KiB of one-byte chunks takes 10 ms. */
const CHUNKED_COST = 8;

/**
 * Passes a connection's data to Node's HTTP parser one request at a time, because Node would handle all requests of a
 * packet in one event loop turn. Later data stays in the socket's buffer until all responses have been sent.
 */
export class RequestReader {
  readonly #socket: Socket;
  readonly #hasOutstanding: () => boolean;
  readonly #bodies: TurnLimit;
  readonly #parse: (data: Buffer) => void;
  #latestRequest: IncomingMessage | undefined;
  #missingBodyBytes = 0;
  /** Whether further requests stay in the socket's buffer until the responses to all earlier requests have been sent. */
  #isHeld = false;
  /** Whether body data waits for a later event loop turn. */
  #isWaiting = false;
  /** Whether body data that has waited may be parsed in this event loop turn. */
  #hasTurn = false;
  #isPipelined = false;
  #isUpgraded = false;

  /** @param bodies limits the body bytes that all connections of the listener together receive in an event loop turn */
  constructor(socket: Socket, hasOutstanding: () => boolean, bodies: TurnLimit) {
    const parse = socket.listeners('data')[0] as ((data: Buffer) => void) | undefined;
    if (parse === undefined) throw new Error('Node does not parse the data of the socket');
    this.#socket = socket;
    this.#hasOutstanding = hasOutstanding;
    this.#bodies = bodies;
    this.#parse = parse;
    socket.on('data', this.#onData);
    socket.off('data', parse);
  }

  /** Whether the current request arrived before the previous response ended. */
  get isPipelined(): boolean {
    return this.#isPipelined;
  }

  onHeaders(request: IncomingMessage): void {
    this.#latestRequest = request;
    this.#missingBodyBytes = Number(request.headers['content-length'] ?? 0);
  }

  /** Stops parsing HTTP, because the connection now uses another protocol. */
  onUpgrade(): void {
    this.#isUpgraded = true;
    this.#socket.off('data', this.#onData);
  }

  onAnswered(): void {
    if (this.#isHeld && !this.#hasOutstanding()) setImmediate(this.#resume);
  }

  readonly #resume = (): void => {
    // After an upgrade, only the new protocol may resume the socket.
    if (!this.#isUpgraded) this.#socket.resume();
  };

  readonly #onData = (data: Buffer): void => {
    const socket = this.#socket;
    this.#isPipelined = this.#isHeld;
    this.#isHeld = false;
    let start = 0;
    if (!this.#isReceiving && !this.#hasOutstanding()) start = this.#pass(data, 0, headLength(data));
    if (
      start < data.length &&
      this.#isReceiving &&
      !socket.isPaused() &&
      !this.#takeTurn(this.#cost(data.length - start))
    ) {
      this.#holdForTurn(data.subarray(start));
      return;
    }
    while (start < data.length && this.#isReceiving && !socket.isPaused() && !socket.destroyed) {
      start = this.#pass(data, start, this.#partLength(data.length - start));
    }
    if (start === data.length || socket.destroyed) return;
    if (this.#isUpgraded) socket.unshift(data.subarray(start));
    else this.#hold(data.subarray(start));
  };

  /** Parses `length` bytes of `data` from index `start`, and returns the index after these bytes. */
  #pass(data: Buffer, start: number, length: number): number {
    const end = start + length;
    this.#parse(start === 0 && end === data.length ? data : data.subarray(start, end));
    return end;
  }

  get #isReceiving(): boolean {
    return this.#latestRequest?.complete === false;
  }

  get #isChunked(): boolean {
    return this.#latestRequest?.headers['transfer-encoding'] !== undefined;
  }

  #cost(bytes: number): number {
    return this.#isChunked ? bytes * CHUNKED_COST : bytes;
  }

  #partLength(available: number): number {
    if (this.#isChunked) return Math.min(available, CHUNKED_PART_BYTES);
    const length = Math.min(available, Math.max(1, this.#missingBodyBytes));
    this.#missingBodyBytes -= length;
    return length;
  }

  #takeTurn(cost: number): boolean {
    const hasTurn = this.#hasTurn;
    this.#hasTurn = false;
    return hasTurn || this.#bodies.take(cost);
  }

  #holdForTurn(rest: Buffer): void {
    this.#socket.pause();
    this.#socket.unshift(rest);
    // If Node has resumed the socket too early, the call of `defer` below is already pending.
    if (this.#isWaiting) return;
    this.#isWaiting = true;
    this.#bodies.defer(this.#cost(rest.length), () => {
      this.#isWaiting = false;
      this.#hasTurn = true;
      this.#socket.resume();
    });
  }

  #hold(rest: Buffer): void {
    const socket = this.#socket;
    // Node itself resumes a socket that it paused for backpressure.
    const isPausedByNode = socket.isPaused();
    socket.pause();
    socket.unshift(rest);
    this.#isHeld = true;
    if (!isPausedByNode && !this.#hasOutstanding()) setImmediate(this.#resume);
  }
}

/** Returns the length of the first request's headers, or of all data if the headers are incomplete. */
function headLength(data: Buffer): number {
  const end = data.indexOf(END_OF_HEADERS, 0, 'latin1');
  return end < 0 ? data.length : end + END_OF_HEADERS.length;
}
