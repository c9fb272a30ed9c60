import { closeSync, constants, fstatSync, openSync, write } from 'node:fs';
import { Socket } from 'node:net';

export type OnWritten = (error: NodeJS.ErrnoException | null, written: number) => void;

/** Writes to standard output without blocking the calling thread. */
export interface StandardOutput {
  /** Starts a write. Calls `onWritten` once, when the write ends or fails. A write to a full standard output fails with `EAGAIN`. */
  write(bytes: Buffer, onWritten: OnWritten): void;
  /** Closes the descriptor opened by `openStandardOutput`, if any, but not descriptor 1. No write may be in progress. */
  close(): void;
}

const STDOUT = 1;

/**
 * Opens standard output for non-blocking writes. A pipe or terminal is opened a second time with O_NONBLOCK, because setting the
 * flag on the first open file description would affect other processes. Without the flag, a stalled reader would block a thread of
 * libuv's pool, which would also keep the process from exiting. A file is not opened again, because a second description would have
 * its own offset, while standard error may share the first one. A socket cannot be reopened, nor can another user's pipe or terminal.
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

function file(descriptor: number, close: () => void): StandardOutput {
  return { write: (bytes, onWritten) => write(descriptor, bytes, 0, bytes.length, null, onWritten), close };
}

/** Socket for standard output. All logs of the process share it, because libuv polls a descriptor for only one handle. */
let shared: Socket | undefined;

function socket(): StandardOutput {
  shared ??= openSocket();
  const output = shared;
  return {
    write: (bytes, onWritten) =>
      void output.write(bytes, (error) => onWritten(error ?? null, error ? 0 : bytes.length)),
    close: () => {},
  };
}

function openSocket(): Socket {
  const output = new Socket({ fd: STDOUT, readable: false, writable: true });
  output.unref();
  // Errors are handled in the callback of `write`. Without a listener, they would crash the process.
  output.on('error', () => {});
  return output;
}
