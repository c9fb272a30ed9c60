import { spawnSync } from 'node:child_process';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { afterTest, temporaryFolder } from './cleanup.ts';
import { execute } from './command.ts';
import { describeWith } from './requirements.ts';

/** Defines a suite that mounts file systems. Without the permission, it is pending locally and fails in CI. */
export function describeWithSmallDisk(title: string, define: () => void): void {
  const { status } = spawnSync('unshare', ['--mount', 'mount', '-t', 'tmpfs', 'ticker-spec', '/mnt']);
  describeWith(status === 0 ? undefined : 'only root can mount a file system', title, define);
}

export async function mountSmallDisk(megabytes: number) {
  const path = await temporaryFolder();
  await execute('mount', ['-t', 'tmpfs', '-o', `size=${megabytes}m`, 'ticker-spec', path]);
  // Lazy unmount: files that are still open must not prevent it.
  afterTest(() => execute('umount', ['--lazy', path]));
  const ballast = join(path, 'ballast');
  return {
    path,
    // Writes until not a single byte fits.
    fill: () => void spawnSync('sh', ['-c', 'cat /dev/zero >>"$0"', ballast], { stdio: 'ignore' }),
    free: () => rm(ballast),
  };
}
