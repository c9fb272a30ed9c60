import type { IncomingMessage } from 'node:http';
import { parseJsonObject } from '../../workers/shared/json-object.ts';
import { HttpError, serverBusy } from './errors.ts';
import type { TurnLimit } from './turn-limit.ts';

/** Maximum number of bytes to discard after a request body has been refused. */
const MAX_DISCARDED_BYTES = 16 * 1024 * 1024;

/** Minimum capacity of a buffer in bytes, unless `Content-Length` is smaller. */
const MIN_CAPACITY = 512;

const EMPTY: Buffer<ArrayBuffer> = Buffer.alloc(0);

/** Limit on the total bytes kept in memory for a listener's clients. Callers must release all bytes that they take. */
export class ByteBudget {
  readonly limit: number;
  used = 0;

  constructor(limit: number) {
    this.limit = limit;
  }

  /**
   * Takes `bytes` for a client that already holds `held` bytes. Returns false if the client would then hold more bytes
   * than the budget has left, so that large bodies leave room for small bodies.
   */
  take(bytes: number, held = 0): boolean {
    const left = this.limit - this.used - bytes;
    if (held + bytes > left) return false;
    this.used += bytes;
    return true;
  }

  release(bytes: number): void {
    this.used -= bytes;
  }
}

export interface BodyBounds {
  /** Maximum size of one body in bytes. */
  limit: number;
  /** Budget of all unparsed bodies of a listener. Must be at least twice `limit`, or the largest bodies are refused. */
  budget: ByteBudget;
}

/** Collects a request body in one buffer, which grows as bytes arrive, even if `Content-Length` is large. */
export class BodyBuffer {
  readonly #bounds: BodyBounds;
  readonly #maxLength: number;
  #buffer: Buffer<ArrayBuffer> = EMPTY;
  /** Size of the buffer in bytes. Stored, because a buffer transferred to a thread has a length of 0. */
  capacity = 0;
  /** Number of received bytes. */
  length = 0;

  constructor(bounds: BodyBounds, contentLength?: string) {
    this.#bounds = bounds;
    this.#maxLength = Math.min(bounds.limit, Number(contentLength ?? Number.POSITIVE_INFINITY));
  }

  get bytes(): Buffer<ArrayBuffer> {
    return this.#buffer.subarray(0, this.length);
  }

  /** Returns the received bytes for transfer to a thread, copied if their `ArrayBuffer` also holds other data. */
  ownBytes(): Uint8Array<ArrayBuffer> {
    const isOwn = this.#buffer.byteLength === this.#buffer.buffer.byteLength;
    return isOwn ? this.bytes : Uint8Array.prototype.slice.call(this.bytes);
  }

  /** Appends a chunk. @throws {HttpError} `request body too large`, or `server busy` if the budget is exceeded */
  append(chunk: Buffer<ArrayBuffer>): void {
    const length = this.length + chunk.length;
    if (length > this.#bounds.limit) throw new HttpError('bodyTooLarge');
    // Most bodies arrive in a single chunk, which is used without copying.
    if (this.length === 0 && length === this.#maxLength) {
      this.#charge(length);
      this.#buffer = chunk;
    } else {
      if (length > this.capacity) this.#grow(length);
      chunk.copy(this.#buffer, this.length);
    }
    this.length = length;
  }

  /** Frees the buffer and returns its bytes to the budget. May be called repeatedly. */
  release(): void {
    this.#bounds.budget.release(this.capacity);
    this.capacity = 0;
    this.#buffer = EMPTY;
    this.length = 0;
  }

  #grow(length: number): void {
    const capacity = Math.max(length, Math.min(this.#maxLength, Math.max(MIN_CAPACITY, 2 * this.capacity)));
    this.#charge(capacity - this.capacity);
    // Allocated outside of Node's buffer pool, because a small slice would keep the whole 8 KiB pool in memory.
    const buffer = Buffer.allocUnsafeSlow(capacity);
    this.#buffer.copy(buffer, 0, 0, this.length);
    this.#buffer = buffer;
  }

  #charge(bytes: number): void {
    if (!this.#bounds.budget.take(bytes, this.capacity)) throw serverBusy();
    this.capacity += bytes;
  }
}

/** Reads a request body as a JSON object. Other JSON values become an empty object. @throws {HttpError} */
export function readJsonObject(request: IncomingMessage, bounds: BodyBounds, turns: Pick<TurnLimit, 'enter'>) {
  return withBody(request, bounds, async (body) => {
    await turns.enter(body.length);
    const object = parseJsonObject(body.bytes);
    if (object === undefined) throw new HttpError('invalidJson');
    return object;
  });
}

/** Reads a request body for `use`, then frees its memory. @throws {HttpError} also if the client disconnects */
export async function withBody<T>(request: IncomingMessage, bounds: BodyBounds, use: (body: BodyBuffer) => Promise<T>) {
  const body = new BodyBuffer(bounds, request.headers['content-length']);
  try {
    await receive(request, body);
    return await use(body);
  } finally {
    body.release();
  }
}

function receive(request: IncomingMessage, body: BodyBuffer): Promise<void> {
  return new Promise((resolve, reject) => {
    // The client may have disconnected while its token was checked.
    if (request.destroyed) return reject(new HttpError('badRequest'));
    // With `Connection: close`, the error response follows the refused body, because closing the connection while the
    // client still sends would lose the response.
    let discardable = /\bclose\b/i.test(request.headers.connection ?? '') ? MAX_DISCARDED_BYTES : 0;
    let refusal: unknown;
    request.on('data', (chunk: Buffer<ArrayBuffer>) => {
      try {
        if (refusal === undefined) body.append(chunk);
        else discardable -= chunk.length;
      } catch (error) {
        refusal = error;
        body.release();
      }
      if (refusal !== undefined && discardable <= 0) reject(refusal);
    });
    request.once('end', () => (refusal === undefined ? resolve() : reject(refusal)));
    // Creates the error only for an incomplete body, because capturing a stack trace for every request is too slow.
    const cutOff = () => {
      if (!request.readableEnded) reject(new HttpError('badRequest'));
    };
    request.once('error', cutOff);
    request.once('close', cutOff);
  });
}
