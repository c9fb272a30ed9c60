import { closeSync, constants, fstatSync, openSync, write } from 'node:fs';
import { Socket } from 'node:net';

export type OnWritten = (error: NodeJS.ErrnoException | null, written: number) => void;

/** Writes to standard output without blocking the calling thread. */
export interface StandardOutput {
  /** Starts a write. Calls `onWritten` once when the write ends or fails, with `EAGAIN` if standard output is full. */
  write(bytes: Buffer, onWritten: OnWritten): void;
  /** Closes the descriptor opened by `openStandardOutput`, never descriptor 1. Must not be called during a write. */
  close(): void;
}

const STDOUT = 1;

/**
 * Opens standard output for non-blocking writes, because a blocking write to a stalled reader would keep the process
 * from exiting.
 *
 * A pipe or terminal is opened again with O_NONBLOCK, because setting the flag on descriptor 1 would affect other
 * processes. A file is not opened again, because standard error may share its offset.
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

/** Socket for standard output. All logs share the socket, because libuv polls a descriptor for only one handle. */
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
  // An error without a listener would crash the process. The callback of `write` handles errors.
  output.on('error', () => {});
  return output;
}
