import { inspect } from 'node:util';
import { parentPort, threadId, workerData } from 'node:worker_threads';
import { PermanentError } from './actions.ts';
import {
  type Acknowledgement,
  AttemptField,
  type EarlySettlement,
  type MainToPool,
  type PoolThreadData,
  type TaskDelivery,
  type TaskOutcome,
} from './messages.ts';
import { recordDuration } from './record-duration.ts';

/** The delivery that a handler processes. Only the first call of `ack` or `nack` has an effect. */
export interface HandledDelivery {
  /** Number of the task in the order of arrival, or null if it has none. */
  readonly sequence: number | null;
  /** Settles the delivery as done while the handler is still running. */
  ack(): void;
  /** Settles the delivery as failed while the handler is still running. */
  nack(): void;
}

/**
 * Processes one task. `body` is the JSON text of the queued task message. The delivery is acknowledged after the returned row is
 * stored. If the handler throws, the attempt has failed and may be retried. A {@link PermanentError} discards the task instead.
 */
export type TaskHandler<Row = void> = (body: string, delivery: HandledDelivery) => Row | Promise<Row>;

/** Stores the rows that were returned by the handlers of the tasks in a batch. */
export type StoreRows<Row> = (rows: readonly Row[]) => Failures | Promise<Failures>;

/** One element for each row, in order: undefined if the row was stored, else the reason why not. */
type Failures = ReadonlyArray<Failure | undefined>;

/** Reason why a row was not stored. `ofRow` is true if only this row was rejected, false if no row can be stored at present. */
type Failure = { error: unknown; ofRow: boolean };

/** Returns the function of a pool thread. It runs the handler for each task of a batch, then stores all rows. It never throws. */
export function poolFunction<Row>(
  handler: TaskHandler<Row>,
  store: StoreRows<Row> = (rows) => rows.map(() => undefined),
): (message: MainToPool) => Promise<TaskOutcome[]> {
  return async (message) => {
    if ('selfTest' in message) return [];
    const { tasks, slot } = message;
    const outcomes: TaskOutcome[] = [];
    /** Returned rows, each with its index in `outcomes`. The index in the batch is higher if a dying thread has claimed a task. */
    const returned: { position: number; row: Row }[] = [];
    for (;;) {
      const index = claim(slot, outcomes.length);
      const task = tasks[index];
      if (task === undefined) break;
      noteAttempt(slot, index);
      const startedAt = performance.now();
      const { outcome, row } = await attempt(task, handler);
      if (durations !== undefined) recordDuration(durations, slot, (performance.now() - startedAt) / 1000);
      if (outcome.ended === 'returned') returned.push({ position: outcomes.length, row: row as Row });
      outcomes.push(outcome);
    }
    noteAttempt(slot, tasks.length);
    const failures = await store(returned.map(({ row }) => row));
    for (const [number, { position }] of returned.entries()) {
      const failure = failures[number];
      if (failure === undefined) continue;
      const { settled } = outcomes[position] as TaskOutcome;
      outcomes[position] = { ...(settled && { settled }), ...unstored(failure) };
    }
    return outcomes;
  };
}

async function attempt<Row>(
  { delivery, body, sequence }: TaskDelivery,
  handler: TaskHandler<Row>,
): Promise<{ outcome: TaskOutcome; row?: Row }> {
  let settled: Acknowledgement | undefined;
  const settle = (acknowledgement: Acknowledgement) => {
    if (settled !== undefined) return;
    settled = acknowledgement;
    parentPort?.postMessage({ delivery, settled } satisfies EarlySettlement);
  };
  try {
    const row = await handler(body, { sequence, ack: () => settle('ack'), nack: () => settle('nack') });
    return { outcome: { ended: 'returned', ...(settled && { settled }) }, row };
  } catch (error) {
    return { outcome: { ...(settled && { settled }), ...raised(error) } };
  }
}

function raised(error: unknown) {
  return { ended: 'raised', reason: describe(error), permanent: error instanceof PermanentError } as const;
}

function unstored({ error, ofRow }: Failure) {
  return ofRow ? raised(error) : ({ ended: 'unstored', reason: describe(error) } as const);
}

const shared = workerData as Partial<PoolThreadData> | null;
const attempts = shared?.attempts && new Float64Array(shared.attempts);
const durations = shared?.durations;
const startedTasks = shared?.startedTasks && new Int32Array(shared.startedTasks);

/** Returns the index of the next task to run, which is beyond the batch if no task is left or the main thread reclaimed the rest. */
function claim(slot: number, next: number): number {
  return startedTasks === undefined ? next : Atomics.add(startedTasks, slot, 1);
}

/** Records an attempt before its handler runs and may hang. The start time is written last, when all other fields are set. */
function noteAttempt(slot: number, index: number): void {
  if (attempts === undefined) return;
  const first = slot * AttemptField.count;
  attempts[first + AttemptField.threadId] = threadId;
  attempts[first + AttemptField.index] = index;
  attempts[first + AttemptField.beganAt] = Number(process.hrtime.bigint()) / 1e6;
}

/** Maximum number of characters of the reason of a failure, which is stored with the failed task. */
const MAX_REASON = 1000;

function describe(thrown: unknown): string {
  try {
    const text: unknown = thrown instanceof Error ? thrown.message : thrown;
    return (typeof text === 'string' ? text : inspect(text, { depth: 1 })).slice(0, MAX_REASON);
  } catch {
    return 'an error that cannot be read';
  }
}
