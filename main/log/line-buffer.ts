import type { StandardOutput } from './standard-output.ts';

/** Bound on the buffered bytes. Further lines are lost. */
const MAX_WAITING_BYTES = 8 * 1024 * 1024;
/** Bound on the bytes of one write, unless a single line is longer: the capacity of a pipe. */
const CHUNK_BYTES = 64 * 1024;
/** Pause before a write is retried because standard output had no room. */
const RETRY_MS = 20;
/** Bound on the time that a stalled reader delays the end of the process. */
const END_TIMEOUT_MS = 1000;
const NEWLINE = 0x0a;

interface Chunk {
  text: string;
  /** Offset in bytes of the end of each line. */
  ends: number[];
}

/** Lines for standard output, one write at a time. Lines are lost and counted if the buffer is full or a write fails. */
export class LineBuffer {
  readonly #output: StandardOutput;
  readonly #onRecovered: (lost: number) => void;
  readonly #chunks: Chunk[] = [];
  #waitingBytes = 0;
  #writing = false;
  #ended = false;
  #lost = 0;
  #reportedLost = 0;
  /** Whether an error cut off the last line on standard output. */
  #cut = false;
  /** Resolved when the buffer is empty. */
  #empty = Promise.withResolvers<void>();

  /** @param onRecovered called with the number of lost lines so far, once standard output takes lines again */
  constructor(output: StandardOutput, onRecovered: (lost: number) => void) {
    this.#output = output;
    this.#onRecovered = onRecovered;
  }

  get lost(): number {
    return this.#lost;
  }

  write(line: string): void {
    const bytes = Buffer.byteLength(line);
    if (this.#ended || this.#waitingBytes + bytes > MAX_WAITING_BYTES) {
      this.#lost += 1;
      return;
    }
    this.#waitingBytes += bytes;
    const last = this.#chunks.at(-1);
    const end = (last?.ends.at(-1) ?? 0) + bytes;
    if (last !== undefined && end <= CHUNK_BYTES) {
      last.text += line;
      last.ends.push(end);
    } else {
      this.#chunks.push({ text: line, ends: [bytes] });
    }
    if (!this.#writing) this.#writeNext();
  }

  /** Flushes the buffer, for a second at most. Later lines are lost. */
  async end(): Promise<void> {
    this.#ended = true;
    if (!this.#writing) return;
    this.#empty = Promise.withResolvers();
    const timer = setTimeout(this.#empty.resolve, END_TIMEOUT_MS);
    await this.#empty.promise;
    clearTimeout(timer);
  }

  #writeNext(): void {
    const chunk = this.#chunks.shift();
    this.#writing = chunk !== undefined;
    if (chunk === undefined) {
      this.#empty.resolve();
      return;
    }
    // The rest of a cut line must not join the next one.
    const prefix = this.#cut ? '\n' : '';
    const ends = chunk.ends.map((end) => end + prefix.length);
    this.#writeFrom(0, Buffer.from(prefix + chunk.text), (reached) => {
      this.#waitingBytes -= chunk.ends.at(-1) ?? 0;
      this.#lost += ends.filter((end) => end > reached).length;
      this.#writeNext();
    });
  }

  /** Calls `onDone` with the number of bytes that standard output took: all, or those before an error. */
  #writeFrom(offset: number, bytes: Buffer, onDone: (reached: number) => void): void {
    this.#output.write(bytes.subarray(offset), (error, written) => {
      const isFull = error === null ? written === 0 : error.code === 'EAGAIN';
      // Unreferenced, so that the log does not keep the process alive.
      if (isFull) return void setTimeout(() => this.#writeFrom(offset, bytes, onDone), RETRY_MS).unref();
      if (error !== null) return onDone(offset);
      const reached = offset + written;
      this.#cut = bytes[reached - 1] !== NEWLINE;
      if (reached < bytes.length) return this.#writeFrom(reached, bytes, onDone);
      this.#reportLost();
      onDone(reached);
    });
  }

  #reportLost(): void {
    // Not while the buffer is more than half full: a slow reader would cause a report for each chunk.
    if (this.#ended || this.#lost === this.#reportedLost || this.#waitingBytes > MAX_WAITING_BYTES / 2) return;
    this.#reportedLost = this.#lost;
    this.#onRecovered(this.#lost);
  }
}
