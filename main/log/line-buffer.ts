import type { StandardOutput } from './standard-output.ts';

/** Maximum number of bytes in the buffer. Further log lines are lost. */
const MAX_WAITING_BYTES = 8 * 1024 * 1024;
/** Maximum number of bytes in one write: the capacity of a pipe. A longer line is written alone. */
const CHUNK_BYTES = 64 * 1024;
/** Milliseconds before a write is repeated if standard output had no room for it. */
const RETRY_MS = 20;
/** Maximum time in milliseconds that a stalled reader of standard output delays the end of the process. */
const END_TIMEOUT_MS = 1000;
const NEWLINE = 0x0a;

interface Chunk {
  text: string;
  /** Byte offset in `text` of the end of each line. */
  ends: number[];
}

/** Buffers log lines and writes them to standard output, one write at a time. Counts lines that a full buffer or an error loses. */
export class LineBuffer {
  readonly #output: StandardOutput;
  readonly #onRecovered: (lost: number) => void;
  readonly #chunks: Chunk[] = [];
  #waitingBytes = 0;
  #writing = false;
  #ended = false;
  #lost = 0;
  #reportedLost = 0;
  /** Whether the last line on standard output is incomplete because an error interrupted its write. */
  #cut = false;
  /** Resolved when the buffer is empty. `end` waits for it. */
  #empty = Promise.withResolvers<void>();

  /** @param onRecovered called with the total number of lost lines when standard output takes lines again after a loss */
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

  /** Writes the buffered lines, for {@link END_TIMEOUT_MS} at most. Lines passed to `write` after this call are lost. */
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
    // A newline ends a line that an error has cut off, so that the next line does not continue it.
    const prefix = this.#cut ? '\n' : '';
    const ends = chunk.ends.map((end) => end + prefix.length);
    this.#writeFrom(0, Buffer.from(prefix + chunk.text), (reached) => {
      this.#waitingBytes -= chunk.ends.at(-1) ?? 0;
      this.#lost += ends.filter((end) => end > reached).length;
      this.#writeNext();
    });
  }

  /** Writes `bytes` from `offset` on. Calls `onDone` with the number of bytes written: all of them, or those before an error. */
  #writeFrom(offset: number, bytes: Buffer, onDone: (reached: number) => void): void {
    this.#output.write(bytes.subarray(offset), (error, written) => {
      const isFull = error === null ? written === 0 : error.code === 'EAGAIN';
      // The timer is unreferenced, so that the log does not keep the process alive.
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
    // While the buffer is more than half full, losses are not reported, because a slow reader would cause a report for each write.
    if (this.#ended || this.#lost === this.#reportedLost || this.#waitingBytes > MAX_WAITING_BYTES / 2) return;
    this.#reportedLost = this.#lost;
    this.#onRecovered(this.#lost);
  }
}
