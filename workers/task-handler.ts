import { inspect } from 'node:util';
import { parentPort, threadId, workerData } from 'node:worker_threads';
import { PermanentError } from './actions.ts';
import {
  type Acknowledgement,
  AttemptField,
  type EarlySettlement,
  type MainToPool,
  type PoolThreadData,
  type TaskBatch,
  type TaskDelivery,
  type TaskOutcome,
} from './messages.ts';
import { recordDuration } from './observe-duration.ts';

/** What a handler can do about its delivery; the first call counts, later ones do nothing. */
export interface Delivery {
  /** The task's place in the order of arrival, where it has one. */
  readonly arrival: number | null;
  /** Acknowledges at once, before the handler ends. */
  ack(): void;
  /** Acknowledges negatively at once, before the handler ends. */
  nack(): void;
}

/**
 * Works one queued task off. `body` is the JSON text of the queued task message. What it returns is stored before the
 * delivery is acknowledged; a raised error acknowledges it negatively, a {@link PermanentError} for good.
 */
export type TaskHandler<Row = void> = (body: string, delivery: Delivery) => Row | Promise<Row>;

/**
 * Stores what the handlers of some tasks returned.
 *
 * @returns for each row, in order, why it was not stored: because of the row itself, or because nothing can be
 */
export type StoreRows<Row> = (rows: readonly Row[]) => Failures | Promise<Failures>;

/** For each row, in order, why it was not stored. */
type Failures = ReadonlyArray<{ error: unknown; ofRow: boolean } | undefined>;

/**
 * Makes of a handler the function that a pool thread runs for each message: one task after the other, and then all
 * their rows at once. It never throws.
 */
export function poolFunction<Row>(
  handler: TaskHandler<Row>,
  store: StoreRows<Row> = (rows) => rows.map(() => undefined),
): (message: MainToPool) => Promise<TaskOutcome[]> {
  return async (message) => {
    if ('selfTest' in message) return [];
    const { tasks, slot } = message;
    const outcomes: TaskOutcome[] = [];
    const returned: { outcome: Extract<TaskOutcome, { ended: 'returned' }>; index: number; row: Row }[] = [];
    for (;;) {
      const index = begin(slot, outcomes.length);
      const task = tasks[index];
      if (task === undefined) break;
      noteAttempt(slot, index);
      const from = performance.now();
      const { outcome, row } = await attempt(task, handler);
      if (runs !== undefined) recordDuration(runs, slot, (performance.now() - from) / 1000);
      outcomes.push(outcome);
      if (outcome.ended === 'returned') returned.push({ outcome, index, row: row as Row });
    }
    noteAttempt(slot, tasks.length);
    const failures = await store(returned.map(({ row }) => row));
    for (const [place, { outcome, index }] of returned.entries()) {
      const failure = failures[place];
      if (failure === undefined) continue;
      const { error, ofRow } = failure;
      outcomes[index] = { ...outcome, ...(ofRow ? raised(error) : { ended: 'unstored', reason: describe(error) }) };
    }
    return outcomes;
  };
}

async function attempt<Row>(
  { delivery, body, arrival }: TaskDelivery,
  handler: TaskHandler<Row>,
): Promise<{ outcome: TaskOutcome; row?: Row }> {
  let settled: Acknowledgement | undefined;
  const settle = (acknowledgement: Acknowledgement) => {
    if (settled !== undefined) return;
    settled = acknowledgement;
    parentPort?.postMessage({ delivery, settled } satisfies EarlySettlement);
  };
  try {
    const row = await handler(body, { arrival, ack: () => settle('ack'), nack: () => settle('nack') });
    return { outcome: { ended: 'returned', ...(settled && { settled }) }, row };
  } catch (error) {
    return { outcome: { ...(settled && { settled }), ...raised(error) } };
  }
}

function raised(error: unknown) {
  return { ended: 'raised', reason: describe(error), permanent: error instanceof PermanentError } as const;
}

const shared = workerData as Partial<PoolThreadData> | null;
const attempts = shared?.attempts && new Float64Array(shared.attempts);
const runs = shared?.runs;
const begun = shared?.begun && new Int32Array(shared.begun);

/** The place of the next task to begin; none is there when the main thread has taken back what was left. */
function begin(slot: TaskBatch['slot'], next: number): number {
  return begun === undefined ? next : Atomics.add(begun, slot, 1);
}

/** Before anything can hang: who finds the time of the beginning finds the rest, too. */
function noteAttempt(slot: TaskBatch['slot'], index: number): void {
  if (attempts === undefined) return;
  const first = slot * AttemptField.count;
  attempts[first + AttemptField.threadId] = threadId;
  attempts[first + AttemptField.index] = index;
  attempts[first + AttemptField.beganAt] = Number(process.hrtime.bigint()) / 1e6;
}

/** Reasons are kept with what failed. */
const MAX_REASON = 1000;

/** A text for anything that can be thrown. */
function describe(thrown: unknown): string {
  try {
    const text: unknown = thrown instanceof Error ? thrown.message : thrown;
    return (typeof text === 'string' ? text : inspect(text, { depth: 1 })).slice(0, MAX_REASON);
  } catch {
    return 'an error that cannot be read';
  }
}
