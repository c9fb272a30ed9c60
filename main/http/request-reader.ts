import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { Turns } from './turns.ts';

const END_OF_HEADERS = '\r\n\r\n';

/** Largest part of a chunked body that is parsed at once, because requests may follow in the same part. */
const CHUNKED_PART_BYTES = 1024;

/** Most bytes of bodies that a listener receives in one turn of the event loop. Copying them takes about 2 ms. */
export const BODY_BYTES_PER_TURN = 1024 * 1024;

/**
 * Passes the bytes of a connection to Node's parser one request at a time. Node would create all requests of a packet in one
 * turn of the event loop, and abort them in one turn when the connection closes. Held bytes stay in the socket's buffer, which
 * stops reading at its high-water mark, until all responses have been sent.
 *
 * Node's parser alone decides where a request ends. A wrong guess here only passes on more or fewer bytes at once.
 */
export class RequestReader {
  readonly #socket: Socket;
  readonly #hasOutstanding: () => boolean;
  readonly #bodies: Turns;
  /** Node's listener of the socket's data. */
  readonly #parse: (data: Buffer) => void;
  /** Request that was parsed last. */
  #request: IncomingMessage | undefined;
  /** Bytes of the request's body that have not arrived, if it has `Content-Length`. */
  #missing = 0;
  /** Whether the buffer has bytes that wait for a response. */
  #isHeld = false;
  /** Whether a part of the body waits for its turn. */
  #isWaiting = false;
  /** Whether the next part of the body has been granted its turn. */
  #hasTurn = false;
  #isPipelined = false;
  #isUpgraded = false;

  /**
   * @param hasOutstanding whether a response of the connection is outstanding
   * @param bodies the listener's limit of {@link BODY_BYTES_PER_TURN}
   */
  constructor(socket: Socket, hasOutstanding: () => boolean, bodies: Turns) {
    const parse = socket.listeners('data')[0] as ((data: Buffer) => void) | undefined;
    if (parse === undefined) throw new Error('Node does not parse the data of the socket');
    this.#socket = socket;
    this.#hasOutstanding = hasOutstanding;
    this.#bodies = bodies;
    this.#parse = parse;
    socket.on('data', this.#onData);
    socket.off('data', parse);
  }

  /** Whether the request being parsed arrived before the end of the previous response. */
  get isPipelined(): boolean {
    return this.#isPipelined;
  }

  /** Called when the headers of a request have been parsed. */
  onHeaders(request: IncomingMessage): void {
    this.#request = request;
    this.#missing = Number(request.headers['content-length'] ?? 0);
  }

  /** Leaves the rest of the data to the protocol that follows. */
  onUpgrade(): void {
    this.#isUpgraded = true;
    this.#socket.off('data', this.#onData);
  }

  /** Called when a response has been sent. */
  onAnswered(): void {
    if (this.#isHeld && !this.#hasOutstanding()) setImmediate(this.#resume);
  }

  readonly #resume = (): void => {
    this.#socket.resume();
  };

  readonly #onData = (data: Buffer): void => {
    const socket = this.#socket;
    this.#isPipelined = this.#isHeld;
    this.#isHeld = false;
    let start = 0;
    // At most one request a turn, with its body.
    if (!this.#isReceiving && !this.#hasOutstanding()) start = this.#pass(data, 0, headLength(data));
    if (start < data.length && this.#isReceiving && !this.#takeTurn(data.length - start)) {
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

  /** Passes bytes to the parser, and returns their end. */
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
    // Node may have resumed the socket while the part was waiting.
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
    // A socket that Node has paused for a body is resumed by Node.
    const isPausedByNode = socket.isPaused();
    socket.pause();
    socket.unshift(rest);
    this.#isHeld = true;
    if (!isPausedByNode && !this.#hasOutstanding()) setImmediate(this.#resume);
  }
}

/** Length of the first request's headers, or of all data if they do not end in it. */
function headLength(data: Buffer): number {
  const end = data.indexOf(END_OF_HEADERS, 0, 'latin1');
  return end < 0 ? data.length : end + END_OF_HEADERS.length;
}
