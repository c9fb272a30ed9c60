import { spawn } from 'node:child_process';
import { join } from 'node:path';
import type { StreamTarget } from '../load/stream-client.ts';
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

/** Seconds of CPU that all threads of a contender have used. */
export function cpuOf({ child }: Program): number {
  return cpuSeconds(child.pid as number);
}
