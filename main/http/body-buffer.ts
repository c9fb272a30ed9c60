import type { ByteBudget } from './byte-budget.ts';
import { HttpError, serverBusy } from './errors.ts';

/** Smallest allocation, unless the body is known to be smaller. */
const MIN_CAPACITY = 512;

const EMPTY: Buffer<ArrayBuffer> = Buffer.alloc(0);

/** Bounds on request bodies. */
export interface BodyBounds {
  /** Most bytes of a body. */
  limit: number;
  /** Budget for all unparsed bodies of a listener, at least twice `limit`. */
  budget: ByteBudget;
}

/**
 * The bytes of a request body, in a buffer that grows as they arrive, so that small chunks take no extra memory. The
 * capacity is at most twice the bytes that have arrived, or {@link MIN_CAPACITY}, whatever `Content-Length` says.
 */
export class BodyBuffer {
  readonly #bounds: BodyBounds;
  /** Most bytes that can arrive. */
  readonly #expected: number;
  #buffer: Buffer<ArrayBuffer> = EMPTY;
  #capacity = 0;
  #length = 0;

  /** @param contentLength the header of that name, if present */
  constructor(bounds: BodyBounds, contentLength?: string) {
    this.#bounds = bounds;
    this.#expected = Math.min(bounds.limit, Number(contentLength ?? Number.POSITIVE_INFINITY));
  }

  get length(): number {
    return this.#length;
  }

  /** Size of the buffer in bytes, charged to the budget. */
  get capacity(): number {
    return this.#capacity;
  }

  /** The bytes that have arrived. */
  get bytes(): Buffer<ArrayBuffer> {
    return this.#buffer.subarray(0, this.#length);
  }

  /** {@link bytes} in a buffer that holds nothing else, so that it may be transferred to a thread. */
  ownBytes(): Uint8Array<ArrayBuffer> {
    const isOwn = this.#buffer.byteLength === this.#buffer.buffer.byteLength;
    return isOwn ? this.bytes : Uint8Array.prototype.slice.call(this.bytes);
  }

  /** Appends a chunk. @throws {HttpError} `request body too large`, or `server busy` if the budget has no room */
  append(chunk: Buffer<ArrayBuffer>): void {
    const length = this.#length + chunk.length;
    if (length > this.#bounds.limit) throw new HttpError('bodyTooLarge');
    // Most bodies arrive whole and need no copy.
    if (this.#length === 0 && length === this.#expected) {
      this.#charge(length);
      this.#buffer = chunk;
    } else {
      if (length > this.capacity) this.#grow(length);
      chunk.copy(this.#buffer, this.#length);
    }
    this.#length = length;
  }

  /** Frees the memory. May be called twice. */
  release(): void {
    this.#bounds.budget.release(this.#capacity);
    this.#capacity = 0;
    this.#buffer = EMPTY;
    this.#length = 0;
  }

  #grow(length: number): void {
    const capacity = Math.max(length, Math.min(this.#expected, Math.max(MIN_CAPACITY, 2 * this.capacity)));
    this.#charge(capacity - this.capacity);
    // Not from Node's buffer pool, where a few bytes would retain 8 KiB.
    const buffer = Buffer.allocUnsafeSlow(capacity);
    this.#buffer.copy(buffer, 0, 0, this.#length);
    this.#buffer = buffer;
  }

  #charge(bytes: number): void {
    if (!this.#bounds.budget.take(bytes, this.#capacity)) throw serverBusy();
    this.#capacity += bytes;
  }
}
