import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { afterTest } from './cleanup.ts';

/** The clients of a crowd: those that read, and those that never do, which say nothing or ping twice a second. */
export interface CrowdStart {
  port: number;
  token: string;
  readers: number;
  silent: number;
  chatty: number;
  /** Whether the ticks are made up by the spec; real ones are held to the contract. */
  madeUp?: boolean;
}

export type CrowdTask = 'report' | 'let all read';

/** What the readers of a crowd have seen. */
export interface CrowdReport {
  /** Clients of every kind that do not know of an end of their connection. */
  open: number;
  /** The timestamp of each tick that any of them got, in order; snapshots are not counted. */
  timestamps: number[];
  /** Readers that have not got the newest of those. */
  behind: number;
  /** How often a reader got a tick that was not the next one. */
  gaps: number;
  /** Messages by type, and frames of another kind than text by opcode. */
  types: Record<string, number>;
  /** Close frames by code. */
  closed: Record<number, number>;
}

/** Many clients in a process of their own, all joined. */
export interface Crowd {
  /** What they have seen, as soon as all readers have the newest tick that one of them has now, or one has gone. */
  report(): Promise<CrowdReport>;
  /** Has those read that never did. */
  letAllRead(): Promise<void>;
}

/** Opens the clients, and waits until all of them are joined. */
export async function gather(start: CrowdStart): Promise<Crowd> {
  const file = fileURLToPath(new URL('crowd-process.ts', import.meta.url));
  const child = fork(file, [JSON.stringify(start)], { execArgv: [] });
  const failed = once(child, 'exit').then(([code]) => {
    throw new Error(`the crowd ended with exit code ${code}`);
  });
  afterTest(async () => {
    child.kill('SIGKILL');
    await failed.catch(() => {});
  });
  const heard = async () => (await Promise.race([once(child, 'message'), failed]))[0];
  await heard();
  const ask = (task: CrowdTask) => {
    child.send(task);
    return heard();
  };
  return {
    report: () => ask('report'),
    letAllRead: () => ask('let all read'),
  };
}
