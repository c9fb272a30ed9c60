import { execFile } from 'node:child_process';
import { closeSync, openSync, writeSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterTest, temporaryFolder } from './cleanup.ts';

const run = promisify(execFile);

/** A file system of its own that can be filled. */
export interface SmallDisk {
  path: string;
  /** Takes all the room that is left. */
  fill(): void;
  /** Gives back what {@link fill} took. */
  free(): Promise<void>;
}

/** Mounts a file system in memory until the test is over; undefined where this user may not. */
export async function mountSmallDisk(megabytes: number): Promise<SmallDisk | undefined> {
  const path = await temporaryFolder();
  try {
    await run('mount', ['-t', 'tmpfs', '-o', `size=${megabytes}m`, 'ticker-spec', path]);
  } catch {
    return undefined;
  }
  // Lazily: whoever still has a file open there must not keep it mounted.
  afterTest(() => run('umount', ['--lazy', path]));
  const ballast = join(path, 'ballast');
  return {
    path,
    fill() {
      const file = openSync(ballast, 'a');
      try {
        // In ever smaller pieces, until not one byte goes in.
        for (let size = 64 * 1024; size >= 1; ) {
          try {
            writeSync(file, Buffer.alloc(size));
          } catch (error) {
            if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error;
            size = Math.floor(size / 2);
          }
        }
      } finally {
        closeSync(file);
      }
    },
    free: () => rm(ballast),
  };
}
