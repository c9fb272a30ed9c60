import { parentPort, threadId, workerData } from 'node:worker_threads';
import { busyPoll, POLL_MS } from './busy-poll.ts';
import { Histogram } from './histogram.ts';
import {
  type AbortReason,
  type Acknowledgement,
  AttemptField,
  type EarlySettlement,
  type MainToPool,
  type PoolThreadData,
  type TaskBatch,
  type TaskDelivery,
  type TaskOutcome,
  TERMINATED,
} from './messages.ts';
import { readThrown } from './thrown.ts';

/** Time limit for storing a batch's rows. Longer than the database timeouts, so that only a hung thread exceeds it. */
const STORING_MS = 30_000;

/** Delivery that a handler is processing. Only the first call of `ack` or `nack` has an effect. */
export interface HandledDelivery extends Omit<TaskDelivery, 'body'> {
  /** Sets the attempt's time limit. The main thread terminates the thread `graceMs` after the limit. */
  limit(timeoutMs: number, graceMs: number): void;
  ack(): void;
  nack(): void;
}

/** Processes a task (JSON text) and returns its row. @throws {PermanentError} if the task must not be retried */
export type TaskHandler<Row = void> = (body: string, delivery: HandledDelivery) => Row | Promise<Row>;

/** Thrown if a handler ended because its signal was aborted. The attempt is not counted. */
export class Aborted extends Error {
  readonly #reason: AbortReason;

  constructor(reason: AbortReason) {
    super(reason);
    this.#reason = reason;
  }

  /** Does not use `instanceof`, which can run code of a thrown proxy. */
  static reasonOf(thrown: unknown): AbortReason | undefined {
    return typeof thrown === 'object' && thrown !== null && #reason in thrown ? thrown.#reason : undefined;
  }
}

export type StoreRows<Row> = (rows: readonly Row[]) => Failures | Promise<Failures>;

/** Result of storing each row, in the order of the rows: the failure, or undefined for a stored row. */
type Failures = ReadonlyArray<Failure | undefined>;

/** Reason why a row was not stored. `ofRow` is false if the database currently cannot store any row. */
type Failure = { error: unknown; ofRow: boolean };

/**
 * Returns a function that processes a batch. It calls `handler` for each task, then stores the rows. After a batch that
 * followed the previous one closely, it keeps the event loop awake, because another batch will probably follow.
 */
export function poolFunction<Row>(
  handler: TaskHandler<Row>,
  store: StoreRows<Row> = (rows) => rows.map(() => undefined),
): (message: MainToPool) => Promise<TaskOutcome[]> {
  const run = batchFunction(handler, store);
  const poll = busyPoll();
  let endedAt = Number.NEGATIVE_INFINITY;
  return async (message) => {
    poll.end();
    if ('selfTest' in message) return [];
    const isClose = performance.now() - endedAt < POLL_MS;
    const outcomes = await run(message);
    endedAt = performance.now();
    if (isClose && message.mayPoll) poll.begin();
    return outcomes;
  };
}

function batchFunction<Row>(handler: TaskHandler<Row>, store: StoreRows<Row>) {
  return async ({ tasks, slot }: TaskBatch): Promise<TaskOutcome[]> => {
    const histogram = durations && new Histogram(durations.bounds, durations.cells, slot);
    const outcomes: TaskOutcome[] = [];
    /** Rows to store. `position` is the index of the row's task in `outcomes`. */
    const returned: { position: number; row: Row }[] = [];
    for (;;) {
      const index = claim(slot, outcomes.length);
      const task = tasks[index];
      if (task === undefined) break;
      noteAttempt(slot, index, timeoutMs);
      if (!recordRunning(slot, index)) return forever;
      const startedAt = performance.now();
      const limit = (limitMs: number, graceMs: number) => noteLimit(slot, limitMs, graceMs);
      const { outcome, row } = await runAttempt(task, handler, limit);
      histogram?.observe((performance.now() - startedAt) / 1000);
      const hasRow = outcome.ended === 'returned' && outcome.settled !== 'nack';
      if (hasRow) returned.push({ position: outcomes.length, row: row as Row });
      outcomes.push(outcome);
    }
    noteAttempt(slot, tasks.length, Math.max(timeoutMs, STORING_MS));
    if (!recordRunning(slot, tasks.length)) return forever;
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
    // A call after the end of the attempt has no effect, because the outcome is final.
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
    // Set before `raised` reads the error, so that a getter of the error cannot settle the ended attempt.
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

/** Claims the next task and returns its index, or an index past the end of the batch if no task is left. */
function claim(slot: number, next: number): number {
  return startedTasks === undefined ? next : Atomics.add(startedTasks, slot, 1);
}

/** Returned for a batch while the main thread terminates the thread. */
const forever = new Promise<never>(() => {});

// Records `index` as the running task. Returns false if the main thread is terminating this thread, which must then
// neither run another task nor store rows.
function recordRunning(slot: number, index: number): boolean {
  return runningTasks === undefined || Atomics.exchange(runningTasks, slot, index) !== TERMINATED;
}

// The attempt is recorded before the handler runs, because the handler may hang. The deadline is written last, because
// it tells the main thread that the other fields are valid.
function noteAttempt(slot: number, index: number, limitMs: number): void {
  if (attempts === undefined) return;
  const first = slot * AttemptField.count;
  attempts[first + AttemptField.threadId] = threadId;
  attempts[first + AttemptField.index] = index;
  attempts[first + AttemptField.timeoutMs] = limitMs;
  attempts[first + AttemptField.deadline] = Number(process.hrtime.bigint()) / 1e6 + limitMs;
}

function noteLimit(slot: number, limitMs: number, graceMs: number): void {
  if (attempts === undefined) return;
  const first = slot * AttemptField.count;
  attempts[first + AttemptField.timeoutMs] = limitMs;
  attempts[first + AttemptField.deadline] =
    (attempts[first + AttemptField.deadline] as number) + limitMs - timeoutMs + graceMs;
}
