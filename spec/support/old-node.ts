import { spawnSync } from 'node:child_process';
import { delimiter, join } from 'node:path';
import { runtimeIsNewEnough } from '../../main/process/runtime.ts';

const folders = (process.env.PATH ?? '').split(delimiter).filter((folder) => !folder.includes('node_modules'));

/** The PATH without the project's own programs, as in a shell outside of npm scripts. */
export const outerPath = folders.join(delimiter);

/** Returns the path of the first Node on the PATH that is too old to run the services, if any. */
export function oldNode(): string | undefined {
  const nodes = folders.map((folder) => join(folder, 'node'));
  return nodes.find((node) => {
    const { stdout } = spawnSync(node, ['--version'], { encoding: 'utf8' });
    return stdout?.startsWith('v') && !runtimeIsNewEnough(stdout.slice(1));
  });
}
