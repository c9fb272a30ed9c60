import { constants, fstatSync, openSync, write } from 'node:fs';
import { Socket } from 'node:net';

export type OnWritten = (error: NodeJS.ErrnoException | null, written: number) => void;

/** Standard output without blocking writes. */
export interface StandardOutput {
  /** Starts one write, and calls `onWritten` once. The error is EAGAIN if there is no room at present. */
  write(bytes: Buffer, onWritten: OnWritten): void;
}

const STDOUT = 1;

/**
 * Opens standard output. Pipes and terminals are opened again, because O_NONBLOCK belongs to the open file description, which
 * other processes share: a write to a stalled pipe or terminal then fails with EAGAIN instead of blocking a thread of libuv's pool,
 * which would also keep the process from exiting. Files are not, because the offset belongs to the description, too, and
 * standard error may share it. A socket cannot be opened again, nor can a pipe or terminal of another user.
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
  // The callback of the write reports the error.
  output.on('error', () => {});
  return {
    write: (bytes, onWritten) =>
      void output.write(bytes, (error) => onWritten(error ?? null, error ? 0 : bytes.length)),
  };
}
