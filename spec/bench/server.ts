import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { Crowd, type CrowdOptions } from '../load/crowd.ts';
import type { StreamTarget } from '../load/stream-client.ts';
import { afterTest } from '../support/cleanup.ts';
import { cpuSeconds } from '../support/proc.ts';
import { freshSettings, type Program, projectFolder, type RunningServices, watch } from '../support/program.ts';

export interface ContenderOptions {
  args?: readonly (string | number)[];
  env?: Record<string, string>;
  /** Folder of the project, or of another version of it. */
  folder?: string;
}

/** Starts a file of this folder in a process of its own, which writes JSON lines. It ends with the measurement. */
export async function startContender(file: string, options: ContenderOptions = {}): Promise<Program> {
  const { args = [], env = {}, folder = projectFolder } = options;
  const child = spawn(process.execPath, [join(folder, 'spec/bench', file), ...args.map(String)], {
    cwd: projectFolder,
    env: { ...process.env, ...(await freshSettings()), ...env },
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  return watch(child);
}

/** Starts a peer of `contenders/` that tells its port when it listens. */
export async function startPeer(name: string, ...args: number[]): Promise<{ server: Program; port: number }> {
  const server = await startContender(`contenders/${name}.ts`, { args });
  const { port } = await server.logged((line) => line.port !== undefined);
  return { server, port: port as number };
}

/** The stream of the product, with a new token. */
export async function streamOf({ ticker, token }: RunningServices): Promise<StreamTarget> {
  return { host: '127.0.0.1', port: Number(new URL(ticker).port), path: '/ws/ticker', token: await token() };
}

/** Opens clients of a stream in this process, until the end of the measurement. */
export async function gatherCrowd(options: CrowdOptions): Promise<Crowd> {
  const crowd = new Crowd(options);
  afterTest(() => crowd.disperse());
  await crowd.gather();
  return crowd;
}

/** Seconds of CPU that all threads of a contender have used. */
export function cpuOf({ child }: Program): number {
  return cpuSeconds(child.pid as number);
}

/** Has processes of a contender add and process tasks: a single one in turn, several at the same time. */
export async function runQueue(name: string, count: number, options: ContenderOptions & { nodes?: number } = {}) {
  const { nodes = 1, args = [] } = options;
  const start = () => startContender(`contenders/${name}.ts`, { ...options, args: [count / nodes, ...args] });
  const servers = await Promise.all(Array.from({ length: nodes }, start));
  const reported = (what: string) => Promise.all(servers.map((server) => server.logged((line) => line[what] === true)));
  const begin = (step: string) => {
    for (const { child } of servers) child.stdin?.write(`${step}\n`);
    return performance.now();
  };
  const processed = () =>
    servers.reduce(
      (sum, { lines }) => sum + Number(lines.findLast((line) => line.processed !== undefined)?.processed ?? 0),
      0,
    );
  const cpu = () => servers.reduce((sum, server) => sum + cpuOf(server), 0);
  await reported('ready');
  let working = nodes > 1 ? begin('work') : 0;
  const adding = begin('add');
  await reported('added');
  const added = performance.now();
  const cpuBefore = cpu();
  if (nodes === 1) working = begin('work');
  const [{ lines = [] } = {}] = servers;
  const dueAt = lines.findLast((line) => line.dueAt !== undefined)?.dueAt as number | undefined;
  if (dueAt !== undefined && Date.now() > dueAt) throw new Error('the tasks fell due before they were added');
  if (dueAt !== undefined) await setTimeout(dueAt - Date.now());
  const early = processed();
  if (dueAt !== undefined) working = performance.now();
  while (processed() < count) await setTimeout(1);
  const end = performance.now();
  const used = cpu() - cpuBefore;
  await Promise.all(servers.map((server) => server.end('SIGKILL')));
  const perSecond = (from: number, to: number) => count / ((to - from) / 1000);
  const submitted = perSecond(adding, added);
  return {
    submitted,
    early,
    worked: perSecond(working, end),
    both: perSecond(adding, end),
    cpu: (used / count) * 1e6,
  };
}
