import { execFile, execFileSync } from 'node:child_process';
import { closeSync, openSync, writeSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterTest, temporaryFolder } from './cleanup.ts';
import { describeWith } from './requirements.ts';

const run = promisify(execFile);

/** A file system of its own that can be filled. */
export interface SmallDisk {
  path: string;
  /** Takes all the room that is left. */
  fill(): void;
  /** Gives back what {@link fill} took. */
  free(): Promise<void>;
}

/** A suite that mounts file systems: pending for a user who may not mount any, but never in CI. */
export function describeWithSmallDisk(title: string, define: () => void): void {
  describeWith(lackingMounts(), title, define);
}

/** Why no file system can be mounted, if so. */
export function lackingMounts(): string | undefined {
  try {
    execFileSync('unshare', ['--mount', 'mount', '-t', 'tmpfs', 'ticker-spec', '/mnt'], { stdio: 'ignore' });
    return undefined;
  } catch {
    return 'only root can mount a file system';
  }
}

/** Mounts a file system in memory until the end of the test. */
export async function mountSmallDisk(megabytes: number): Promise<SmallDisk> {
  const path = await temporaryFolder();
  await run('mount', ['-t', 'tmpfs', '-o', `size=${megabytes}m`, 'ticker-spec', path]);
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
