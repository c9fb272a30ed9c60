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

/** A handler's view of its delivery. Only the first call of `ack` or `nack` has an effect. */
export interface HandledDelivery {
  /** The task's number in the order of arrival, or null if it has none. */
  readonly sequence: number | null;
  /** Acknowledges before the handler ends. */
  ack(): void;
  /** Acknowledges negatively before the handler ends. */
  nack(): void;
}

/**
 * Processes one task. `body` is the JSON text of the queued task message. The returned row is stored before the delivery is
 * acknowledged. An error acknowledges the delivery negatively, and a {@link PermanentError} discards the task.
 */
export type TaskHandler<Row = void> = (body: string, delivery: HandledDelivery) => Row | Promise<Row>;

/** Stores the rows that the handlers of some tasks returned. */
export type StoreRows<Row> = (rows: readonly Row[]) => Failures | Promise<Failures>;

/** For each row, in order, the error if it was not stored. */
type Failures = ReadonlyArray<Failure | undefined>;

/** `ofRow` is false if no row can be stored at present. */
type Failure = { error: unknown; ofRow: boolean };

/** Returns a pool thread's function, which runs the handler for each task of a batch, then stores all rows. It never throws. */
export function poolFunction<Row>(
  handler: TaskHandler<Row>,
  store: StoreRows<Row> = (rows) => rows.map(() => undefined),
): (message: MainToPool) => Promise<TaskOutcome[]> {
  return async (message) => {
    if ('selfTest' in message) return [];
    const { tasks, slot } = message;
    const outcomes: TaskOutcome[] = [];
    /** Returned rows, with the positions of their outcomes. Not the indexes in the batch: a dying thread may have claimed one. */
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

/** Returns the index of the next task, or one past the end if no task is left or the main thread has reclaimed the rest. */
function claim(slot: number, next: number): number {
  return startedTasks === undefined ? next : Atomics.add(startedTasks, slot, 1);
}

/** Records the start of an attempt before the handler can hang. The start time is written last, so it implies the other fields. */
function noteAttempt(slot: number, index: number): void {
  if (attempts === undefined) return;
  const first = slot * AttemptField.count;
  attempts[first + AttemptField.threadId] = threadId;
  attempts[first + AttemptField.index] = index;
  attempts[first + AttemptField.beganAt] = Number(process.hrtime.bigint()) / 1e6;
}

/** Maximum length of a reason, which is stored with the failed task. */
const MAX_REASON = 1000;

function describe(thrown: unknown): string {
  try {
    const text: unknown = thrown instanceof Error ? thrown.message : thrown;
    return (typeof text === 'string' ? text : inspect(text, { depth: 1 })).slice(0, MAX_REASON);
  } catch {
    return 'an error that cannot be read';
  }
}
