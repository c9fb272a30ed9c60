import { closeSync, constants, fstatSync, openSync, write } from 'node:fs';
import { Socket } from 'node:net';

export type OnWritten = (error: NodeJS.ErrnoException | null, written: number) => void;

export interface StandardOutput {
  /** Calls `onWritten` once, when the write ends. The error code is `EAGAIN` if standard output is full. */
  write(bytes: Buffer, onWritten: OnWritten): void;
  /** Closes the output, but never descriptor 1. Must not be called during a write. */
  close(): void;
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

function file(descriptor: number, close: () => void): StandardOutput {
  return { write: (bytes, onWritten) => write(descriptor, bytes, 0, bytes.length, null, onWritten), close };
}

/** Socket of standard output. Shared by all logs, because libuv polls a descriptor for only one handle. */
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
  // An `error` event without a listener would end the process. The callback of `write` handles errors.
  output.on('error', () => {});
  return output;
}
