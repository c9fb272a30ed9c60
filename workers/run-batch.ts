import { parentPort, threadId, workerData } from 'node:worker_threads';
import { Histogram } from './histogram.ts';
import {
  type AbortReason,
  type Acknowledgement,
  AttemptField,
  type EarlySettlement,
  type MainToPool,
  type PoolThreadData,
  type TaskDelivery,
  type TaskOutcome,
  TERMINATED,
} from './messages.ts';
import { readThrown } from './thrown.ts';

/** Time limit for storing the rows of a batch. Longer than the database timeouts, so only a hung thread exceeds it. */
const STORING_MS = 30_000;

/** The delivery that a handler processes. Only the first call of `ack` or `nack` has an effect, and none once the handler has ended. */
export interface HandledDelivery extends Omit<TaskDelivery, 'body'> {
  /** Replaces the attempt's default time limit. The thread is terminated `graceMs` after the limit. */
  limit(timeoutMs: number, graceMs: number): void;
  /** Settles the delivery as done while the handler is still running. */
  ack(): void;
  /** Settles the delivery as failed while the handler is still running. */
  nack(): void;
}

/**
 * Processes one task. `body` is the JSON text of the queued task message. The delivery is acknowledged after the returned row is
 * stored. If the handler throws, the attempt fails and the task may be retried. A {@link PermanentError} discards the task instead.
 */
export type TaskHandler<Row = void> = (body: string, delivery: HandledDelivery) => Row | Promise<Row>;

/** Thrown by a handler that ended early because its signal was aborted. The attempt does not count. */
export class Aborted extends Error {
  readonly #reason: AbortReason;

  constructor(reason: AbortReason) {
    super(reason);
    this.#reason = reason;
  }

  /** Returns the reason if `thrown` is an `Aborted`, else undefined. Unlike `instanceof`, never runs a thrown proxy's code. */
  static reasonOf(thrown: unknown): AbortReason | undefined {
    return typeof thrown === 'object' && thrown !== null && #reason in thrown ? thrown.#reason : undefined;
  }
}

/** Stores the rows returned by the handlers of a batch. */
export type StoreRows<Row> = (rows: readonly Row[]) => Failures | Promise<Failures>;

/** One element per row, in order: undefined if the row was stored, otherwise the failure. */
type Failures = ReadonlyArray<Failure | undefined>;

/** Reason why a row was not stored. `ofRow` is true if only this row was rejected, false if no row can currently be stored. */
type Failure = { error: unknown; ofRow: boolean };

/** Returns the function that a pool thread runs for each batch. It calls `handler` for each task, then stores the rows. It never throws. */
export function poolFunction<Row>(
  handler: TaskHandler<Row>,
  store: StoreRows<Row> = (rows) => rows.map(() => undefined),
): (message: MainToPool) => Promise<TaskOutcome[]> {
  return async (message) => {
    if ('selfTest' in message) return [];
    const { tasks, slot } = message;
    const histogram = durations && new Histogram(durations.bounds, durations.cells, slot);
    const outcomes: TaskOutcome[] = [];
    /** Returned rows, each with its index in `outcomes`. The index in the batch is higher if a dying thread has claimed a task. */
    const returned: { position: number; row: Row }[] = [];
    for (;;) {
      const index = claim(slot, outcomes.length);
      const task = tasks[index];
      if (task === undefined) break;
      noteAttempt(slot, index, timeoutMs);
      if (isTerminated(slot, index)) return forever;
      const startedAt = performance.now();
      const limit = (limitMs: number, graceMs: number) => noteLimit(slot, limitMs, graceMs);
      const { outcome, row } = await runAttempt(task, handler, limit);
      histogram?.observe((performance.now() - startedAt) / 1000);
      const hasRow = outcome.ended === 'returned' && outcome.settled !== 'nack';
      if (hasRow) returned.push({ position: outcomes.length, row: row as Row });
      outcomes.push(outcome);
    }
    noteAttempt(slot, tasks.length, Math.max(timeoutMs, STORING_MS));
    if (isTerminated(slot, tasks.length)) return forever;
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

async function runAttempt<Row>(
  { delivery, body, sequence, attempt }: TaskDelivery,
  handler: TaskHandler<Row>,
  limit: HandledDelivery['limit'],
): Promise<{ outcome: TaskOutcome; row?: Row }> {
  let settled: Acknowledgement | undefined;
  let hasEnded = false;
  const settle = (acknowledgement: Acknowledgement) => {
    // Once the attempt has ended, its outcome is final, although it is sent only with the outcomes of the whole batch.
    if (hasEnded || settled !== undefined) return;
    settled = acknowledgement;
    parentPort?.postMessage({ delivery, settled } satisfies EarlySettlement);
  };
  try {
    const [ack, nack] = [() => settle('ack'), () => settle('nack')];
    const row = await handler(body, { delivery, sequence, attempt, limit, ack, nack });
    hasEnded = true;
    return { outcome: { ended: 'returned', ...(settled && { settled }) }, row };
  } catch (error) {
    // Set before the error is read, because its getters can call `ack` or `nack`.
    hasEnded = true;
    return { outcome: { ...(settled && { settled }), ...raised(error) } };
  }
}

function raised(error: unknown) {
  const reason = Aborted.reasonOf(error);
  if (reason !== undefined) return { ended: 'interrupted', reason, suspect: false } as const;
  return { ended: 'raised', ...readThrown(error) } as const;
}

function unstored({ error, ofRow }: Failure) {
  return ofRow ? raised(error) : ({ ended: 'unstored', reason: readThrown(error).reason } as const);
}

const shared = workerData as Partial<PoolThreadData> | null;
const attempts = shared?.attempts && new Float64Array(shared.attempts);
const durations = shared?.durations;
const timeoutMs = shared?.timeoutMs ?? Number.POSITIVE_INFINITY;
const runningTasks = shared?.runningTasks && new Int32Array(shared.runningTasks);
const startedTasks = shared?.startedTasks && new Int32Array(shared.startedTasks);

/** Returns the index of the next task to run, which is past the end of the batch if no task is left or the rest were reclaimed. */
function claim(slot: number, next: number): number {
  return startedTasks === undefined ? next : Atomics.add(startedTasks, slot, 1);
}

/** Result of a batch whose thread is being terminated. Never settles. */
const forever = new Promise<never>(() => {});

/**
 * Records that the task at `index` runs next or, if `index` is past the end of the batch, that rows are stored next. Returns true if the
 * main thread is terminating this thread because of a cancelled task. In that case, nothing more may run or be stored.
 */
function isTerminated(slot: number, index: number): boolean {
  return runningTasks !== undefined && Atomics.exchange(runningTasks, slot, index) === TERMINATED;
}

/** Records an attempt before its handler runs, because the handler may hang. The deadline must be written last. */
function noteAttempt(slot: number, index: number, limitMs: number): void {
  if (attempts === undefined) return;
  const first = slot * AttemptField.count;
  attempts[first + AttemptField.threadId] = threadId;
  attempts[first + AttemptField.index] = index;
  attempts[first + AttemptField.timeoutMs] = limitMs;
  attempts[first + AttemptField.deadline] = Number(process.hrtime.bigint()) / 1e6 + limitMs;
}

/** Replaces the time limit of the last recorded attempt. */
function noteLimit(slot: number, limitMs: number, graceMs: number): void {
  if (attempts === undefined) return;
  const first = slot * AttemptField.count;
  attempts[first + AttemptField.timeoutMs] = limitMs;
  attempts[first + AttemptField.deadline] =
    (attempts[first + AttemptField.deadline] as number) + limitMs - timeoutMs + graceMs;
}
