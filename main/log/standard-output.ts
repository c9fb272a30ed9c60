import { constants, fstatSync, openSync, write } from 'node:fs';
import { Socket } from 'node:net';

export type OnWritten = (error: NodeJS.ErrnoException | null, written: number) => void;

/** Writer to standard output. Its writes do not block the calling thread. */
export interface StandardOutput {
  /** Starts one write, and calls `onWritten` once. The error has the code EAGAIN if standard output has no room at present. */
  write(bytes: Buffer, onWritten: OnWritten): void;
}

const STDOUT = 1;

/**
 * Opens standard output so that writes do not block. A pipe or terminal is opened a second time with O_NONBLOCK, because the flag
 * on the first open file description would affect other processes. Without the flag, a stalled reader would block a thread of
 * libuv's pool, which also keeps the process from exiting. A file is not opened again, because a second description has its own
 * offset, and standard error may share the first. A socket cannot be opened again, nor can a pipe or terminal of another user.
 */
export function openStandardOutput(): StandardOutput {
  const stats = fstatSync(STDOUT);
  const descriptor = stats.isFIFO() || stats.isCharacterDevice() ? openAgain() : undefined;
  if (descriptor !== undefined) return file(descriptor);
  return stats.isFIFO() || stats.isSocket() ? socket() : file(STDOUT);
}

function openAgain(): number | undefined {
  const { O_WRONLY, O_NONBLOCK, O_NOCTTY } = constants;
  try {
    return openSync(`/proc/self/fd/${STDOUT}`, O_WRONLY | O_NONBLOCK | O_NOCTTY);
  } catch {
    return undefined;
  }
}

function file(descriptor: number): StandardOutput {
  return { write: (bytes, onWritten) => write(descriptor, bytes, 0, bytes.length, null, onWritten) };
}

function socket(): StandardOutput {
  const output = new Socket({ fd: STDOUT, readable: false, writable: true });
  output.unref();
  // Errors are handled by the callback of `write`. Without a listener, they would end the process.
  output.on('error', () => {});
  return {
    write: (bytes, onWritten) =>
      void output.write(bytes, (error) => onWritten(error ?? null, error ? 0 : bytes.length)),
  };
}
