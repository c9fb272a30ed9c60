import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, sep } from 'node:path';
import { fileURLToPath } from 'node:url';

const PARENT_CHECK_INTERVAL_MS = 250;
/** Oldest supported Node.js version (major, minor). Must match `engines` in package.json. */
const OLDEST = [24, 15] as const;
const EXECUTABLE = process.platform === 'win32' ? 'node.exe' : 'node';
/** Environment variable of the child process, so that a child with a too old Node.js does not start another child. */
const HANDED_OVER = 'HANDED_OVER_BY_NODE';

/** Whether this project is installed as a package of another project. Otherwise it is a clone. */
export const isDependency = fileURLToPath(import.meta.url)
  .split(sep)
  .includes('node_modules');

/** Whether a Node.js version, by default that of this process, can run the services. */
export function runtimeIsNewEnough(version = process.versions.node): boolean {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  return major > OLDEST[0] || (major === OLDEST[0] && minor >= OLDEST[1]);
}

/** Returns the error message for a Node.js that is too old. */
export function tooOld(): string {
  return `Node ${OLDEST.join('.')} or newer is needed, this is ${process.versions.node}: ${remedy()}`;
}

function remedy(): string {
  if (isDependency) return 'install it from https://nodejs.org';
  return 'run "npm install" here to install one, and with ignore-scripts "npm rebuild node --ignore-scripts=false"';
}

/** Runs this command with the Node.js in the clone's `node_modules`, and exits with the child's exit code or signal. */
export async function runWithInstalledNode(): Promise<void> {
  const installed = installedNode();
  if (installed === undefined || process.env[HANDED_OVER] !== undefined) {
    console.error(tooOld());
    process.exitCode = 1;
    return;
  }
  const child = spawn(installed, [...process.execArgv, ...process.argv.slice(1)], {
    // The IPC channel carries no messages. The child receives `disconnect` when this process ends, even after SIGKILL.
    stdio: ['inherit', 'inherit', 'inherit', 'ipc'],
    env: { ...process.env, [HANDED_OVER]: process.versions.node },
  });
  // Ctrl-C sends SIGINT to both processes, so the child gets the signal twice. `serve` ignores the second signal.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => child.kill(signal));
  whenNpxEnds(() => child.disconnect());
  const [code, signal] = (await once(child, 'exit')) as [number | null, NodeJS.Signals | null];
  if (signal === null) process.exit(code ?? 1);
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
}

function installedNode(): string | undefined {
  try {
    const manifest = createRequire(import.meta.url).resolve('node/package.json');
    const executable = join(dirname(manifest), 'bin', EXECUTABLE);
    return existsSync(executable) ? executable : undefined;
  } catch {
    return undefined;
  }
}

/** Calls `onEnd` when npx has ended, if npx started this process. npx does not pass SIGTERM on to this process. */
export function whenNpxEnds(onEnd: () => void): void {
  if (!/(^|[\s'"])ticker-and-tasks($|[\s'"])/.test(process.env.npm_lifecycle_script ?? '')) return;
  const parent = process.ppid;
  const timer = setInterval(() => {
    if (process.ppid === parent) return;
    clearInterval(timer);
    onEnd();
  }, PARENT_CHECK_INTERVAL_MS);
  timer.unref();
}
