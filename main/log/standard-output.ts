import { constants, fstatSync, openSync } from 'node:fs';
import { Socket } from 'node:net';
import sonicBoom from 'sonic-boom';

/** Maximum size of the buffer. Log lines that do not fit are lost. */
const MAX_WAITING_BYTES = 8 * 1024 * 1024;
/** Maximum time that `end` waits for a stalled reader of standard output. */
const END_TIMEOUT_MS = 1000;

/** Writes log lines to standard output. Buffers the lines that standard output does not take, and never blocks. */
export class StandardOutput {
  lost = 0;
  /** Reason why the last write failed. Undefined after the next successful one. */
  failure: string | undefined;
  readonly #output: sonicBoom.SonicBoom;
  #end: Promise<void> | undefined;
  #reportedLost = 0;

  /** @param onRecovered called when the buffer is empty after lines were lost, with their number since the start */
  constructor(onRecovered: (lost: number) => void, fd = writableDescriptor(), maxLength = MAX_WAITING_BYTES) {
    this.#output = new sonicBoom.SonicBoom({ fd, sync: false, maxLength });
    this.#output.on('drop', () => {
      this.lost += 1;
    });
    this.#output.on('error', ({ message }: Error) => {
      this.failure = message;
    });
    this.#output.on('drain', () => {
      this.failure = undefined;
      if (this.#end !== undefined || this.lost === this.#reportedLost) return;
      this.#reportedLost = this.lost;
      onRecovered(this.lost);
    });
  }

  write(line: string): void {
    if (this.#end === undefined) this.#output.write(line);
    else this.lost += 1;
  }

  /** Writes the buffered lines for at most one second, then closes the output, but never descriptor 1. Later lines are lost. */
  end(): Promise<void> {
    this.#end ??= this.#finish();
    return this.#end;
  }

  async #finish(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const stop = () => {
      this.#output.destroy();
      resolve();
    };
    this.#output.once('close', resolve);
    this.#output.once('error', stop);
    using _timer = setTimeout(stop, END_TIMEOUT_MS);
    this.#output.end();
    await promise;
  }
}

const STDOUT = 1;

/** Handle that makes descriptor 1 non-blocking. Kept, because its garbage collection would close the descriptor. */
const nonBlocking: Socket[] = [];

/**
 * Returns a descriptor of standard output whose writes do not block, so that a stalled reader cannot keep the process
 * from exiting. A pipe or terminal is opened again, because O_NONBLOCK on descriptor 1 would affect other processes.
 */
function writableDescriptor(): number {
  const stats = fstatSync(STDOUT);
  const { O_WRONLY, O_NONBLOCK, O_NOCTTY } = constants;
  if (stats.isFIFO() || stats.isCharacterDevice()) {
    try {
      return openSync(`/proc/self/fd/${STDOUT}`, O_WRONLY | O_NONBLOCK | O_NOCTTY);
    } catch {}
  }
  if (nonBlocking.length === 0 && (stats.isFIFO() || stats.isSocket()))
    nonBlocking.push(new Socket({ fd: STDOUT, readable: false, writable: true }).unref());
  return STDOUT;
}
