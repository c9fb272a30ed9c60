import type { ByteBudget } from './byte-budget.ts';
import { HttpError, serverBusy } from './errors.ts';

/** Minimum capacity of a buffer in bytes, unless `Content-Length` is smaller. */
const MIN_CAPACITY = 512;

const EMPTY: Buffer<ArrayBuffer> = Buffer.alloc(0);

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
  /** Size of `#buffer` in bytes. Stored, because a buffer transferred to a thread has a length of 0. */
  #capacity = 0;
  #length = 0;

  constructor(bounds: BodyBounds, contentLength?: string) {
    this.#bounds = bounds;
    this.#maxLength = Math.min(bounds.limit, Number(contentLength ?? Number.POSITIVE_INFINITY));
  }

  get length(): number {
    return this.#length;
  }

  get capacity(): number {
    return this.#capacity;
  }

  get bytes(): Buffer<ArrayBuffer> {
    return this.#buffer.subarray(0, this.#length);
  }

  /** Returns the received bytes for transfer to a thread, copied if their `ArrayBuffer` also holds other data. */
  ownBytes(): Uint8Array<ArrayBuffer> {
    const isOwn = this.#buffer.byteLength === this.#buffer.buffer.byteLength;
    return isOwn ? this.bytes : Uint8Array.prototype.slice.call(this.bytes);
  }

  /** Appends a chunk. @throws {HttpError} `request body too large`, or `server busy` if the budget is exceeded */
  append(chunk: Buffer<ArrayBuffer>): void {
    const length = this.#length + chunk.length;
    if (length > this.#bounds.limit) throw new HttpError('bodyTooLarge');
    // Most bodies arrive in a single chunk, which is used without copying.
    if (this.#length === 0 && length === this.#maxLength) {
      this.#charge(length);
      this.#buffer = chunk;
    } else {
      if (length > this.capacity) this.#grow(length);
      chunk.copy(this.#buffer, this.#length);
    }
    this.#length = length;
  }

  /** Frees the buffer and returns its bytes to the budget. May be called repeatedly. */
  release(): void {
    this.#bounds.budget.release(this.#capacity);
    this.#capacity = 0;
    this.#buffer = EMPTY;
    this.#length = 0;
  }

  #grow(length: number): void {
    const capacity = Math.max(length, Math.min(this.#maxLength, Math.max(MIN_CAPACITY, 2 * this.capacity)));
    this.#charge(capacity - this.capacity);
    // Allocated outside of Node's buffer pool, because a small slice would keep the whole 8 KiB pool in memory.
    const buffer = Buffer.allocUnsafeSlow(capacity);
    this.#buffer.copy(buffer, 0, 0, this.#length);
    this.#buffer = buffer;
  }

  #charge(bytes: number): void {
    if (!this.#bounds.budget.take(bytes, this.#capacity)) throw serverBusy();
    this.#capacity += bytes;
  }
}
