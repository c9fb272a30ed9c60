import { startChild } from './child.ts';

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
  /** Number of the newest ticks that readers have not received. */
  lacking: number;
  /** Number of ticks that readers missed in between. */
  missed: number;
  /** Number of messages by type. */
  types: Record<string, number>;
  /** Number of close frames by code. */
  closed: Record<string, number>;
}

/** Opens clients in a child process and waits until all have joined. */
export async function gather(start: CrowdStart) {
  const file = new URL('crowd-process.ts', import.meta.url);
  const child = await startChild<CrowdTask, CrowdReport>(file, [JSON.stringify(start)]);
  return {
    /** Reports once all readers have received the newest tick, or one of them has disconnected. */
    report: () => child.ask('report'),
    /** Makes the silent and chatty clients start reading. */
    letAllRead: () => child.ask('let all read'),
  };
}
