import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { sep } from 'node:path';
import { fileURLToPath } from 'node:url';

const PARENT_CHECK_INTERVAL_MS = 250;
/** Oldest supported Node.js version (major, minor). Must match `engines` in package.json. */
const OLDEST = [24, 15] as const;
/** Node.js that npm installs in a clone, seen from the built file. */
const INSTALLED = fileURLToPath(
  new URL(`../../../node_modules/node/bin/node${process.platform === 'win32' ? '.exe' : ''}`, import.meta.url),
);
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
  const remedy = isDependency
    ? 'install it from https://nodejs.org'
    : 'run "npm install" here to install one, and with ignore-scripts "npm rebuild node --ignore-scripts=false"';
  return `Node ${OLDEST.join('.')} or newer is needed, this is ${process.versions.node}: ${remedy}`;
}

/** Runs this command with the Node.js in the clone's `node_modules`, and exits with the child's exit code or signal. */
export async function runWithInstalledNode(): Promise<void> {
  if (!existsSync(INSTALLED) || process.env[HANDED_OVER] !== undefined) {
    console.error(tooOld());
    process.exitCode = 1;
    return;
  }
  const child = spawn(INSTALLED, [...process.execArgv, ...process.argv.slice(1)], {
    // The IPC channel carries no messages. The child receives `disconnect` when this process ends, even after SIGKILL.
    stdio: ['inherit', 'inherit', 'inherit', 'ipc'],
    env: { ...process.env, [HANDED_OVER]: process.versions.node },
  });
  // Ctrl-C sends SIGINT to both processes, so the child gets the signal twice. `serve` ignores the second signal.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => child.kill(signal));
  const [code, signal] = (await once(child, 'exit')) as [number | null, NodeJS.Signals | null];
  if (signal === null) process.exit(code ?? 1);
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
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
