import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/** `node:sqlite` is a release candidate from here on; package.json states the same in `engines`. */
const OLDEST = [24, 15] as const;
const NODE = process.platform === 'win32' ? 'node.exe' : 'node';
/** Set for the process that is handed over to, so that one that is too old itself does not go on for ever. */
const HANDED_OVER = 'HANDED_OVER_BY_NODE';

/** Whether `version` (`process.versions.node` unless given) can run the services. */
export function runtimeIsNewEnough(version = process.versions.node): boolean {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  return major > OLDEST[0] || (major === OLDEST[0] && minor >= OLDEST[1]);
}

/**
 * Runs this same command line on the Node that `npm install` put beside the project, and ends as
 * that process ends. Without one, says in one line how to get it and sets exit code 1.
 */
export async function handOver(): Promise<void> {
  const installed = fileURLToPath(new URL(`../../node_modules/node/bin/${NODE}`, import.meta.url));
  if (!existsSync(installed) || process.env[HANDED_OVER] !== undefined) {
    console.error(
      `Node ${OLDEST.join('.')} or newer is needed, this is ${process.versions.node}: run "npm install" here, which brings one along`,
    );
    process.exitCode = 1;
    return;
  }
  const child = spawn(installed, [...process.execArgv, ...process.argv.slice(1)], {
    // The channel carries nothing: its end tells the child that this process is gone, however it ended.
    stdio: ['inherit', 'inherit', 'inherit', 'ipc'],
    env: { ...process.env, [HANDED_OVER]: process.versions.node },
  });
  // A terminal's Ctrl-C or end reaches both processes, and the child is told once more from here:
  // run.ts counts signals that arrive together as one.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => child.kill(signal));
  const [code, signal] = await new Promise<[number | null, NodeJS.Signals | null]>((resolve, reject) => {
    child.once('error', reject);
    child.once('exit', (...end) => resolve(end));
  });
  if (signal === null) process.exit(code ?? 1);
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
}
