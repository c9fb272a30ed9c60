import { startChild } from '../support/child.ts';

/** Tick interval of the process under attack: short, so that even a short stall delays a tick. */
export const TICK_INTERVAL_MS = 100;

/** Number of stream clients. */
export const STREAMS = 20;

/** Commands to the process of the neighbours. */
export type NeighbourTask =
  | { step: 'join'; ticker: number; token: string }
  | { step: 'begin'; tasks: string; admin: string; seed: number }
  | { step: 'end' }
  /** Polls every accepted task of the latest window until it is settled. */
  | { step: 'account'; tasks: string }
  | { step: 'leave' };

/** Observations of the neighbours between `begin` and `end`. */
export interface Sight {
  seconds: number;
  /** Stream clients that are connected. */
  open: number;
  ticks: number;
  /** Ticks that at least one client missed and another client received. */
  missed: number;
  tickMs: number;
  submitted: number;
  accepted: number;
  submitMs: number;
  probes: number;
  healthMs: number;
  /** Longest event-loop delay of the neighbours' process, which measures the machine and not the services. */
  machineMs: number;
  /** Number of failed submissions and probes by status. */
  errors: Record<string, number>;
  /** Number of ended streams by reason. */
  disconnections: Record<string, number>;
}

/** Reply to a command: the observations after `end`, or the error. */
export interface NeighbourAnswer {
  sight?: Sight;
  error?: string;
}

export type Neighbours = Awaited<ReturnType<typeof startNeighbours>>;

/** Starts twenty stream clients, ten submissions and a health probe a second, in a process of their own. */
export async function startNeighbours() {
  const child = await startChild<NeighbourTask, NeighbourAnswer>(new URL('neighbours-process.ts', import.meta.url));
  const ask = async (task: NeighbourTask): Promise<Sight | undefined> => {
    const { sight, error } = await child.ask(task);
    if (error !== undefined) throw new Error(`neighbours: ${task.step}: ${error}`);
    return sight;
  };
  return {
    /** Runs a step. @throws {Error} if the step fails */
    do: (task: Exclude<NeighbourTask, { step: 'end' }>) => ask(task).then(() => {}),
    /** Ends a window, and returns what the neighbours observed in it. */
    end: async () => (await ask({ step: 'end' })) as Sight,
  };
}
