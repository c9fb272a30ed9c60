import { execFileSync } from 'node:child_process';
import { closeSync, constants, openSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { afterTest, temporaryFolder } from './cleanup.ts';

/** Creates a named pipe that is open for reading but never read. */
export async function namedPipe(): Promise<{ path: string; reader: number; close(): void }> {
  const path = join(await temporaryFolder(), 'pipe');
  execFileSync('mkfifo', [path]);
  const reader = openSync(path, constants.O_RDWR | constants.O_NONBLOCK);
  let open = true;
  const close = () => {
    if (open) closeSync(reader);
    open = false;
  };
  afterTest(close);
  return { path, reader, close };
}

/** Creates a named pipe that is full and never read. Returns its path. */
export async function fullPipe(): Promise<string> {
  const { path, reader } = await namedPipe();
  try {
    for (;;) writeSync(reader, 'x'.repeat(4096));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') throw error;
  }
  return path;
}
