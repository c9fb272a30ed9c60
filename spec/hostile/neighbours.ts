import { type Child, startChild } from './child.ts';

/** Ticks of the process under attack are 100 ms apart, so that a short stall meets one. */
export const TICK_INTERVAL_MS = 100;

/** Steps of the well-behaved clients. */
export type NeighbourTask =
  | { step: 'join'; ticker: number; token: string }
  | { step: 'begin'; tasks: string; admin: string; seed: number }
  | { step: 'end' }
  /** Follows every acknowledged task of the latest window to its end. */
  | { step: 'account'; tasks: string }
  | { step: 'leave' };

/** Observations of the neighbours between `begin` and `end`. */
export interface Sight {
  seconds: number;
  /** Stream clients that are connected. */
  open: number;
  ticks: number;
  /** Ticks that some client did not get and another client got. */
  missed: number;
  tickMs: number;
  submitted: number;
  accepted: number;
  submitMs: number;
  probes: number;
  healthMs: number;
  /** Longest delay of the neighbours' own event loop, which is a measure of the machine and not of the services. */
  machineMs: number;
  /** Refusals of submissions and probes by status. */
  errors: Record<string, number>;
  /** Ends of streams by reason. */
  disconnections: Record<string, number>;
}

/** Answer to a step: the observations after `end`, or the error. */
export interface NeighbourAnswer {
  sight?: Sight;
  error?: string;
}

/** Twenty stream clients, ten submissions and a health probe a second, in a process of their own. */
export class Neighbours {
  readonly #child: Child<NeighbourTask, NeighbourAnswer>;

  private constructor(child: Child<NeighbourTask, NeighbourAnswer>) {
    this.#child = child;
  }

  static async start(): Promise<Neighbours> {
    return new Neighbours(await startChild('neighbours-process.ts'));
  }

  /** @throws {Error} if the step fails */
  async do(task: NeighbourTask): Promise<Sight | undefined> {
    const { sight, error } = await this.#child.ask(task);
    if (error !== undefined) throw new Error(`neighbours: ${task.step}: ${error}`);
    return sight;
  }
}
