import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { TurnLimit } from './turn-limit.ts';

const END_OF_HEADERS = '\r\n\r\n';

/** Maximum number of bytes of a chunked body to parse at once. Small, because the bytes may include more requests. */
const CHUNKED_PART_BYTES = 1024;

/** Maximum number of body bytes that a listener receives in one event loop turn. Copying them takes about 2 ms. */
export const BODY_BYTES_PER_TURN = 1024 * 1024;

/**
 * Passes received data to Node's HTTP parser one request at a time. Otherwise Node would handle all requests in a
 * packet in one event loop turn, and abort all of them in one turn when the connection closes. Further data stays in
 * the socket's buffer until all responses have been sent.
 *
 * This class only estimates where a request ends. A wrong estimate is harmless, because Node's parser decides.
 */
export class RequestReader {
  readonly #socket: Socket;
  readonly #hasOutstanding: () => boolean;
  readonly #bodies: TurnLimit;
  /** Node's own listener for the socket's `data` event, which parses the bytes. */
  readonly #parse: (data: Buffer) => void;
  /** Request whose headers were parsed most recently. */
  #request: IncomingMessage | undefined;
  /** Remaining bytes in the body of `#request`, if the request has a `Content-Length`. */
  #missing = 0;
  /** Whether data is kept in the socket's buffer until all responses have been sent. */
  #isHeld = false;
  /** Whether part of the body is waiting for a later event loop turn. */
  #isWaiting = false;
  /** Whether the waiting part of the body may be parsed in this event loop turn. */
  #hasTurn = false;
  #isPipelined = false;
  #isUpgraded = false;

  /**
   * @param hasOutstanding returns whether the connection has outstanding (unfinished) responses
   * @param bodies enforces {@link BODY_BYTES_PER_TURN} for all connections of the listener together
   */
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

  /** Whether the request being parsed arrived before the previous response had ended. */
  get isPipelined(): boolean {
    return this.#isPipelined;
  }

  /** Called when the headers of a request have been parsed. */
  onHeaders(request: IncomingMessage): void {
    this.#request = request;
    this.#missing = Number(request.headers['content-length'] ?? 0);
  }

  /** Called when the connection is upgraded. Stops parsing and leaves the rest of the data to the new protocol. */
  onUpgrade(): void {
    this.#isUpgraded = true;
    this.#socket.off('data', this.#onData);
  }

  /** Called when a response has been sent. */
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
    // Starts at most one request per event loop turn.
    if (!this.#isReceiving && !this.#hasOutstanding()) start = this.#pass(data, 0, headLength(data));
    if (start < data.length && this.#isReceiving && !socket.isPaused() && !this.#takeTurn(data.length - start)) {
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

  /** Passes `length` bytes from index `start` to the parser. @returns the index after the last byte passed */
  #pass(data: Buffer, start: number, length: number): number {
    const end = start + length;
    this.#parse(start === 0 && end === data.length ? data : data.subarray(start, end));
    return end;
  }

  get #isReceiving(): boolean {
    return this.#request?.complete === false;
  }

  #partLength(available: number): number {
    if (this.#request?.headers['transfer-encoding'] !== undefined) return Math.min(available, CHUNKED_PART_BYTES);
    const length = Math.min(available, Math.max(1, this.#missing));
    this.#missing -= length;
    return length;
  }

  #takeTurn(bytes: number): boolean {
    const hasTurn = this.#hasTurn;
    this.#hasTurn = false;
    return hasTurn || this.#bodies.take(bytes);
  }

  #holdForTurn(rest: Buffer): void {
    this.#socket.pause();
    this.#socket.unshift(rest);
    // Node may have resumed the socket while part of the body was waiting.
    if (this.#isWaiting) return;
    this.#isWaiting = true;
    this.#bodies.defer(rest.length, () => {
      this.#isWaiting = false;
      this.#hasTurn = true;
      this.#socket.resume();
    });
  }

  #hold(rest: Buffer): void {
    const socket = this.#socket;
    // If Node paused the socket for backpressure, Node also resumes it.
    const isPausedByNode = socket.isPaused();
    socket.pause();
    socket.unshift(rest);
    this.#isHeld = true;
    if (!isPausedByNode && !this.#hasOutstanding()) setImmediate(this.#resume);
  }
}

/** Returns the length of the first request's headers, or the length of `data` if the headers are incomplete. */
function headLength(data: Buffer): number {
  const end = data.indexOf(END_OF_HEADERS, 0, 'latin1');
  return end < 0 ? data.length : end + END_OF_HEADERS.length;
}
