import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { rmSync } from 'node:fs';
import { rm } from 'node:fs/promises';

/**
 * Ties a child and its folder to this process, so that neither is left behind, even when this one fails.
 *
 * @returns what ends the child, and removes the folder
 */
export function tie(child: ChildProcess, folder: string): () => Promise<void> {
  const leave = () => {
    child.kill('SIGKILL');
    rmSync(folder, { recursive: true, force: true });
  };
  process.once('exit', leave);
  return async () => {
    process.off('exit', leave);
    if (child.pid !== undefined && child.exitCode === null && child.signalCode === null) {
      const exited = once(child, 'exit');
      child.kill('SIGKILL');
      await exited;
    }
    await rm(folder, { recursive: true, force: true });
  };
}
