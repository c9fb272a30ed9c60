import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { Crowd, type CrowdOptions } from '../load/crowd.ts';
import type { StreamTarget } from '../load/stream-client.ts';
import { afterTest, temporaryFolder } from '../support/cleanup.ts';
import { onFreePort } from '../support/free-port.ts';
import { cpuSeconds } from '../support/proc.ts';
import { freshSettings, type Program, projectFolder, type RunningServices, watch } from '../support/program.ts';
import { until } from '../support/until.ts';

export interface ContenderOptions {
  nodes?: number;
  args?: readonly (string | number)[];
  env?: Record<string, string>;
  /** Folder of the project, or of another version of it. */
  folder?: string;
}

/** Starts a file of `contenders` in a process of its own, which writes JSON lines. It ends with the measurement. */
async function startContender(name: string, options: ContenderOptions): Promise<Program> {
  const { args = [], env = {}, folder = projectFolder } = options;
  const child = spawn(process.execPath, [join(folder, `spec/bench/contenders/${name}.ts`), ...args.map(String)], {
    cwd: projectFolder,
    env: { ...process.env, ...(await freshSettings()), ...env },
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  return watch(child);
}

export async function startPeer(name: string, ...args: number[]) {
  const server = await startContender(name, { args });
  const { port } = await server.logged((line) => line.port !== undefined);
  return { server, port: port as number };
}

/** Starts a Redis of its own for one measurement, so that nothing else is on it. Returns its port. */
export function startRedis(durability?: 'durable'): Promise<number> {
  const settings = durability ? ['--appendonly', 'yes', '--appendfsync', 'always'] : [];
  return onFreePort(async (port) => {
    const dir = await temporaryFolder();
    const args = ['--port', `${port}`, '--bind', '127.0.0.1', '--save', '', '--dir', dir, ...settings];
    const { output, exited } = watch(spawn('redis-server', args));
    const ended = exited.then(({ code }) => Promise.reject(new Error(`redis-server ended with exit code ${code}`)));
    await Promise.race([until(() => /ready to accept/i.test(output())), ended]);
    return port;
  });
}

export async function streamOf({ ticker, token }: RunningServices): Promise<StreamTarget> {
  return { host: '127.0.0.1', port: Number(new URL(ticker).port), path: '/ws/ticker', token: await token() };
}

export async function gatherCrowd(options: CrowdOptions): Promise<Crowd> {
  const crowd = new Crowd(options);
  afterTest(() => crowd.disperse());
  await crowd.gather();
  return crowd;
}

export function cpuOf({ child }: Program): number {
  return cpuSeconds(child.pid as number);
}

/** Has processes of a contender add and process tasks: a single one in turn, several at the same time. */
export async function runQueue(name: string, count: number, options: ContenderOptions) {
  const { nodes = 1, args = [] } = options;
  const start = () => startContender(name, { ...options, args: [count / nodes, ...args] });
  const servers = await Promise.all(Array.from({ length: nodes }, start));
  const reported = (what: string) => Promise.all(servers.map((server) => server.logged((line) => line[what] === true)));
  const begin = (step: string) => {
    for (const { child } of servers) child.stdin?.write(`${step}\n`);
    return performance.now();
  };
  const sum = (of: (server: Program) => number) => servers.reduce((total, server) => total + of(server), 0);
  const latest = (what: string) =>
    sum(({ lines }) => Number(lines.findLast((line) => line[what] !== undefined)?.[what] ?? 0));
  await reported('ready');
  let working = nodes > 1 ? begin('work') : 0;
  const adding = begin('add');
  await reported('added');
  const added = performance.now();
  const cpuBefore = sum(cpuOf);
  if (nodes === 1) working = begin('work');
  // Only single processes have tasks that fall due together.
  const dueAt = latest('dueAt');
  if (dueAt > 0) {
    if (Date.now() > dueAt) throw new Error('the tasks fell due before they were added');
    await setTimeout(dueAt - Date.now());
    working = performance.now();
  }
  const early = latest('processed');
  while (latest('processed') < count) await setTimeout(1);
  const end = performance.now();
  const cpu = ((sum(cpuOf) - cpuBefore) / count) * 1e6;
  await Promise.all(servers.map((server) => server.end('SIGKILL')));
  const perSecond = (from: number, to: number) => count / ((to - from) / 1000);
  const [submitted, worked, both] = [perSecond(adding, added), perSecond(working, end), perSecond(adding, end)];
  return { submitted, early, worked, both, cpu };
}
