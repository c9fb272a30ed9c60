import { type ExecFileOptions, execFile, execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

/** Runs a command to its end. Rejects if the exit code is not 0. */
export const execute = promisify(execFile);

type Ended = { code: number; stdout: string; stderr: string };

export function run(file: string, args: readonly string[], options: ExecFileOptions = {}): Promise<Ended> {
  return execute(file, args, { ...options, encoding: 'utf8' }).then(
    ({ stdout, stderr }) => ({ code: 0, stdout, stderr }),
    ({ code, stdout, stderr }) => ({ code, stdout, stderr }),
  );
}

/** Runs `main/cli/<name>` as a program. Settings are unset if undefined. */
export function runCommand(
  name: 'keys' | 'backup' | 'handlers' | 'migrate',
  args: readonly string[],
  { dataDir, databaseUrl, policiesDir, cwd }: { [Name in 'dataDir' | 'databaseUrl' | 'policiesDir' | 'cwd']?: string },
): Promise<Ended> {
  const env = { ...process.env, DATA_DIR: dataDir, DATABASE_URL: databaseUrl, POLICIES_DIR: policiesDir };
  const file = fileURLToPath(new URL(`../../main/cli/${name}.ts`, import.meta.url));
  return run(process.execPath, [file, ...args], { env, cwd });
}

/** Returns the arguments that a command passes to curl, which may not be installed. */
export function curlArguments(command: string): string[] {
  const shown = execFileSync('sh', ['-c', `curl() { printf '%s\\0' "$@"; }; ${command}`], { encoding: 'utf8' });
  return shown.split('\0');
}
