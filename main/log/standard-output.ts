import { closeSync, constants, fstatSync, openSync, write } from 'node:fs';
import { Socket } from 'node:net';
import { Writable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';

export interface StandardOutput {
  /** Returns the number of bytes written. @throws {Error} with the code `EAGAIN` if standard output is full */
  write(bytes: Buffer): Promise<number>;
  /** Closes the output, but never descriptor 1. Must not be called during a write. */
  close(): void;
}

/** Maximum size of the buffer. Log lines that do not fit are lost. */
const MAX_WAITING_BYTES = 8 * 1024 * 1024;
const RETRY_DELAY_MS = 20;
/** Maximum time that `end` waits for a stalled reader of standard output. */
const END_TIMEOUT_MS = 1000;
const NEWLINE = 0x0a;

/** Buffers log lines and writes them to standard output. Counts lines lost because of a full buffer or an error. */
export class LineBuffer {
  lost = 0;
  readonly #output: StandardOutput;
  readonly #lines: Writable;
  #end: Promise<void> | undefined;
  #isClosing = false;
  #reportedLost = 0;
  /** Whether the last line on standard output is incomplete because its write failed. */
  #isCut = false;

  constructor(output: StandardOutput, onRecovered: (lost: number) => void) {
    this.#output = output;
    this.#lines = new Writable({
      // Gets all lines that were buffered during the previous write.
      writev: async (lines, done) => {
        const isComplete = await this.#write(lines.map(({ chunk }) => chunk));
        done();
        // Lost lines are reported while the buffer is at most half full, to avoid a report per write to a slow reader.
        const hasRoom = this.#end === undefined && this.#lines.writableLength <= MAX_WAITING_BYTES / 2;
        if (!isComplete || !hasRoom || this.lost === this.#reportedLost) return;
        this.#reportedLost = this.lost;
        onRecovered(this.lost);
      },
      final(done) {
        output.close();
        done();
      },
    });
  }

  write(line: string): void {
    const bytes = Buffer.from(line);
    if (this.#end === undefined && this.#lines.writableLength + bytes.length <= MAX_WAITING_BYTES) {
      this.#lines.write(bytes);
    } else {
      this.lost += 1;
    }
  }

  /** Writes the buffered lines for at most one second, then closes the output. Later lines are lost. */
  end(): Promise<void> {
    this.#end ??= this.#finish();
    return this.#end;
  }

  async #finish(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, END_TIMEOUT_MS);
    this.#lines.end(resolve);
    await promise;
    clearTimeout(timer);
    this.#isClosing = true;
  }

  /** Returns whether all lines were written. */
  async #write(lines: readonly Buffer[]): Promise<boolean> {
    // A line that was cut off by an error is ended, so that the next line starts on its own line.
    const prefix = Buffer.from(this.#isCut ? '\n' : '');
    const bytes = Buffer.concat([prefix, ...lines]);
    let written = 0;
    try {
      while (written < bytes.length && !this.#isClosing) {
        const count = await this.#output.write(bytes.subarray(written)).catch(zeroIfFull);
        // A pending retry must not keep the process alive.
        if (count === 0) await sleep(RETRY_DELAY_MS, undefined, { ref: false });
        else this.#isCut = bytes[written + count - 1] !== NEWLINE;
        written += count;
      }
    } catch {}
    let end = prefix.length;
    for (const line of lines) {
      end += line.length;
      if (end > written) this.lost += 1;
    }
    return written === bytes.length;
  }
}

function zeroIfFull(error: NodeJS.ErrnoException): number {
  if (error.code === 'EAGAIN') return 0;
  throw error;
}

const STDOUT = 1;

/**
 * Opens standard output for non-blocking writes, so that a stalled reader cannot keep the process from exiting. A pipe
 * or terminal is opened again, because O_NONBLOCK on descriptor 1 would affect other processes.
 */
export function openStandardOutput(): StandardOutput {
  const stats = fstatSync(STDOUT);
  const descriptor = stats.isFIFO() || stats.isCharacterDevice() ? openAgain() : undefined;
  if (descriptor !== undefined) return file(descriptor, () => closeSync(descriptor));
  return stats.isFIFO() || stats.isSocket() ? socket() : file(STDOUT, () => {});
}

function openAgain(): number | undefined {
  const { O_WRONLY, O_NONBLOCK, O_NOCTTY } = constants;
  try {
    return openSync(`/proc/self/fd/${STDOUT}`, O_WRONLY | O_NONBLOCK | O_NOCTTY);
  } catch {
    return undefined;
  }
}

const writeTo = promisify(write);

function file(descriptor: number, close: () => void): StandardOutput {
  return { write: async (bytes) => (await writeTo(descriptor, bytes)).bytesWritten, close };
}

/** Socket for stdout. Shared by all logs, because libuv polls a descriptor for only one handle. */
let shared: Socket | undefined;

function socket(): StandardOutput {
  // An `error` event without a listener would end the process. The callback of `write` handles errors.
  shared ??= new Socket({ fd: STDOUT, readable: false, writable: true }).unref().on('error', () => {});
  const output = shared;
  const write = (bytes: Buffer) =>
    new Promise<number>((resolve, reject) => {
      output.write(bytes, (error) => (error ? reject(error) : resolve(bytes.length)));
    });
  return { write, close: () => {} };
}
