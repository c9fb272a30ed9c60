import { execFile, execFileSync, spawnSync } from 'node:child_process';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterTest, temporaryFolder } from './cleanup.ts';
import { describeWith } from './requirements.ts';

const run = promisify(execFile);

export type SmallDisk = Awaited<ReturnType<typeof mountSmallDisk>>;

/**
 * Defines a suite that mounts file systems. Without the permission to mount, the suite is pending locally and fails
 * in CI.
 */
export function describeWithSmallDisk(title: string, define: () => void): void {
  describeWith(lackingMounts(), title, define);
}

/** Returns what this machine lacks for mounting file systems, or undefined. */
function lackingMounts(): string | undefined {
  try {
    execFileSync('unshare', ['--mount', 'mount', '-t', 'tmpfs', 'ticker-spec', '/mnt'], { stdio: 'ignore' });
    return undefined;
  } catch {
    return 'only root can mount a file system';
  }
}

/** Mounts a small file system that a test can fill. */
export async function mountSmallDisk(megabytes: number) {
  const path = await temporaryFolder();
  await run('mount', ['-t', 'tmpfs', '-o', `size=${megabytes}m`, 'ticker-spec', path]);
  // Lazy unmount: files that are still open must not prevent it.
  afterTest(() => run('umount', ['--lazy', path]));
  const ballast = join(path, 'ballast');
  return {
    path,
    // Writes until not a single byte fits.
    fill: () => void spawnSync('sh', ['-c', 'cat /dev/zero >>"$0"', ballast], { stdio: 'ignore' }),
    /** Frees the space that `fill` used. */
    free: () => rm(ballast),
  };
}
