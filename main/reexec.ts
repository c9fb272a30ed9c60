import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/** Oldest supported version of Node: the first with `node:sqlite` as a release candidate. Equal to `engines` in package.json. */
const OLDEST = [24, 15] as const;
const EXECUTABLE = process.platform === 'win32' ? 'node.exe' : 'node';
/** Environment variable that marks the child process, so that it starts no child itself if the installed Node is too old. */
const HANDED_OVER = 'HANDED_OVER_BY_NODE';

/** Whether a version of Node can run the services. */
export function runtimeIsNewEnough(version = process.versions.node): boolean {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  return major > OLDEST[0] || (major === OLDEST[0] && minor >= OLDEST[1]);
}

/** Runs this command line on the Node in `node_modules` and ends as it does. If it is missing, prints how to install it. */
export async function reexec(): Promise<void> {
  const installed = fileURLToPath(new URL(`../../node_modules/node/bin/${EXECUTABLE}`, import.meta.url));
  if (!existsSync(installed) || process.env[HANDED_OVER] !== undefined) {
    console.error(
      `Node ${OLDEST.join('.')} or newer is needed, this is ${process.versions.node}: run "npm install" here to install one`,
    );
    process.exitCode = 1;
    return;
  }
  const child = spawn(installed, [...process.execArgv, ...process.argv.slice(1)], {
    // The IPC channel carries no messages. The child gets `disconnect` when this process ends, even by SIGKILL.
    stdio: ['inherit', 'inherit', 'inherit', 'ipc'],
    env: { ...process.env, [HANDED_OVER]: process.versions.node },
  });
  // Ctrl-C in a terminal reaches both processes, so the child gets the signal twice. run.ts counts the two as one.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => child.kill(signal));
  const [code, signal] = await new Promise<[number | null, NodeJS.Signals | null]>((resolve, reject) => {
    child.once('error', reject);
    child.once('exit', (...end) => resolve(end));
  });
  if (signal === null) process.exit(code ?? 1);
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
}
