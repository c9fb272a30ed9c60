import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { afterTest } from './cleanup.ts';

/**
 * Numbers of clients: readers, and clients that never read, of which the silent ones send nothing and the chatty ones
 * ping twice a second.
 */
export interface CrowdStart {
  port: number;
  token: string;
  readers: number;
  silent: number;
  chatty: number;
  /** Whether the spec makes up the ticks. Real ticks are checked against the contract. */
  madeUp?: boolean;
}

export type CrowdTask = 'report' | 'let all read';

/** Observations of the readers. */
export interface CrowdReport {
  /** Number of open connections of all clients, as the clients see it. */
  open: number;
  /** Timestamps of all distinct ticks in order, without snapshots. */
  timestamps: number[];
  /** Number of readers that have not received the newest tick. */
  behind: number;
  /** Number of times a reader missed ticks in between. */
  gaps: number;
  /** Number of messages by type, and of frames other than text by opcode. */
  types: Record<string, number>;
  /** Number of close frames by code. */
  closed: Record<number, number>;
}

/** Many clients in a child process, all of which have joined. */
export interface Crowd {
  /** Reports once all readers have received the newest tick, or one of them has disconnected. */
  report(): Promise<CrowdReport>;
  /** Makes the silent and chatty clients start reading. */
  letAllRead(): Promise<void>;
}

/** Opens the clients and waits until all have joined. */
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
  const nextMessage = async () => (await Promise.race([once(child, 'message'), failed]))[0];
  await nextMessage();
  const ask = (task: CrowdTask) => {
    child.send(task);
    return nextMessage();
  };
  return {
    report: () => ask('report'),
    letAllRead: () => ask('let all read'),
  };
}
