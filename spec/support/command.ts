import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

/** How a program that is run by hand has ended. */
export interface Ended {
  code: number;
  stdout: string;
  stderr: string;
}

/** Runs `main/<name>` as a program, with `DATA_DIR` as given; it is left out where undefined. */
export async function runCommand(
  name: 'keys' | 'backup',
  args: readonly string[],
  { dataDir, cwd }: { dataDir?: string; cwd?: string },
): Promise<Ended> {
  const { DATA_DIR: _outer, ...env } = process.env;
  const file = fileURLToPath(new URL(`../../main/${name}.ts`, import.meta.url));
  return promisify(execFile)(process.execPath, [file, ...args], {
    ...(cwd !== undefined && { cwd }),
    env: dataDir === undefined ? env : { ...env, DATA_DIR: dataDir },
  }).then(
    ({ stdout, stderr }) => ({ code: 0, stdout, stderr }),
    ({ code, stdout, stderr }) => ({ code, stdout, stderr }),
  );
}
