import type { StandardOutput } from './standard-output.ts';

/** Maximum size of the buffer. Log lines that do not fit are lost. */
const MAX_WAITING_BYTES = 8 * 1024 * 1024;
/** Maximum size of a chunk of joined log lines, equal to the capacity of a pipe. A longer line forms its own chunk. */
const CHUNK_BYTES = 64 * 1024;
const RETRY_DELAY_MS = 20;
/** Maximum time that `end` waits for a stalled reader of standard output. */
const END_TIMEOUT_MS = 1000;
const NEWLINE = 0x0a;

/** Buffers log lines and writes them to standard output. Counts lines lost because of a full buffer or an error. */
export class LineBuffer {
  readonly #output: StandardOutput;
  readonly #onRecovered: (lost: number) => void;
  /** Buffered lines, joined into chunks. `ends` contains the end offset of each line in bytes. */
  readonly #chunks: { text: string; ends: number[] }[] = [];
  #waitingBytes = 0;
  #writing = false;
  #retryTimer: NodeJS.Timeout | undefined;
  #end: Promise<void> | undefined;
  #closing = false;
  #lost = 0;
  #reportedLost = 0;
  /** Whether the last line on standard output is incomplete because its write failed. */
  #cut = false;
  #empty = Promise.withResolvers<void>();

  constructor(output: StandardOutput, onRecovered: (lost: number) => void) {
    this.#output = output;
    this.#onRecovered = onRecovered;
  }

  get lost(): number {
    return this.#lost;
  }

  write(line: string): void {
    const bytes = Buffer.byteLength(line);
    if (this.#end !== undefined || this.#waitingBytes + bytes > MAX_WAITING_BYTES) {
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

  /** Writes the buffered lines for at most one second, then closes the output. Later lines are lost. */
  end(): Promise<void> {
    this.#end ??= this.#finish();
    return this.#end;
  }

  async #finish(): Promise<void> {
    if (this.#writing) {
      this.#empty = Promise.withResolvers();
      const timer = setTimeout(this.#empty.resolve, END_TIMEOUT_MS);
      await this.#empty.promise;
      clearTimeout(timer);
    }
    this.#closing = true;
    clearTimeout(this.#retryTimer);
    if (!this.#writing || this.#retryTimer !== undefined) this.#output.close();
  }

  #writeNext(): void {
    if (this.#closing) {
      this.#output.close();
      return;
    }
    const chunk = this.#chunks.shift();
    this.#writing = chunk !== undefined;
    if (chunk === undefined) {
      this.#empty.resolve();
      return;
    }
    // A line that was cut off by an error is ended, so that the next line starts on its own line.
    const prefix = this.#cut ? '\n' : '';
    const ends = chunk.ends.map((end) => end + prefix.length);
    this.#writeFrom(0, Buffer.from(prefix + chunk.text), (reached) => {
      this.#waitingBytes -= chunk.ends.at(-1) ?? 0;
      this.#lost += ends.filter((end) => end > reached).length;
      this.#writeNext();
    });
  }

  /** @param onDone receives the offset after the last written byte, lower than `bytes.length` if writing fails */
  #writeFrom(offset: number, bytes: Buffer, onDone: (reached: number) => void): void {
    this.#output.write(bytes.subarray(offset), (error, written) => {
      const isFull = error === null ? written === 0 : error.code === 'EAGAIN';
      if (isFull && !this.#closing) return this.#retry(() => this.#writeFrom(offset, bytes, onDone));
      if (error !== null) return onDone(offset);
      const reached = offset + written;
      this.#cut = bytes[reached - 1] !== NEWLINE;
      if (reached < bytes.length && !this.#closing) return this.#writeFrom(reached, bytes, onDone);
      this.#reportLost();
      onDone(reached);
    });
  }

  #retry(write: () => void): void {
    // A pending retry must not keep the process alive.
    this.#retryTimer = setTimeout(() => {
      this.#retryTimer = undefined;
      write();
    }, RETRY_DELAY_MS).unref();
  }

  #reportLost(): void {
    // Reports lost lines only while the buffer is at most half full, to avoid a report per write to a slow reader.
    if (this.#end !== undefined || this.#lost === this.#reportedLost || this.#waitingBytes > MAX_WAITING_BYTES / 2)
      return;
    this.#reportedLost = this.#lost;
    this.#onRecovered(this.#lost);
  }
}
