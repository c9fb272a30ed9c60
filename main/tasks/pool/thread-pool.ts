import type { Delivery, TaskProgress } from '../../../db/task-store.ts';
import type { Clock } from '../../../workers/shared/clock.ts';
import { Histogram, TASK_DURATION_BOUNDS } from '../../../workers/shared/histogram.ts';
import { startTaskThread, type TaskThread } from '../../../workers/shared/task-thread.ts';
import { actionOf } from '../../../workers/submissions/parse-submission.ts';
import {
  type AbortRequest,
  type FromTaskThread,
  type HandlerLogLine,
  type HandlersManifest,
  MAX_LOG_PART_BYTES,
  MAX_NOTE,
  type TaskAnswer,
  type TaskThreadStart,
} from '../../../workers/tasks/messages.ts';
import type { Config } from '../../config.ts';
import type { Log } from '../../log/log.ts';
import { type AttemptListener, type Outcome, Run, STOPPED } from './run.ts';
import { startTaskProcess } from './task-process.ts';

/** Time limit for a thread to load its files, and for a child process. */
const START_MS = 10_000;
const PROCESS_START_MS = 20_000;
/** Time limit for a thread to start one of the tasks that were given to it. */
const IDLE_MS = 15_000;
/** Delay before a thread that ends without a task is replaced. Doubles with each further one until a task ends. */
const REPLACE_DELAY_MS = 50;
const LONGEST_REPLACE_DELAY_MS = 5_000;

const LEVELS = ['debug', 'info', 'warn', 'error'] as const;

interface Thread {
  /** Undefined if it could not be created. */
  worker?: TaskThread;
  state: 'loading' | 'ready' | 'ending';
  /** Time limit for the thread to load, or to start one of its tasks. */
  dueAt: number;
  /** Runs that were given to the thread, oldest first. */
  readonly runs: Set<Run>;
  /** Whether the thread is ended for a reason unrelated to its tasks. */
  isBlameless: boolean;
}

interface PoolParts {
  actions: HandlersManifest;
  clock: Clock;
  log: Log;
}

/** Number of pools that this process has created, for the names of their channels. */
let pools = 0;

/** Runs each task by a call of Piscina, in the thread with the fewest tasks. */
export class ThreadPool {
  readonly threads: number;
  readonly overlap: number;
  readonly durations = new Histogram(TASK_DURATION_BOUNDS);
  readonly #settings: Config['tasks'];
  readonly #parts: PoolParts;
  readonly #file: URL | undefined;
  /** Whether each thread is in a child process of its own. */
  readonly #hasProcesses: boolean;
  readonly #startMs: number;
  readonly #log: Log;
  /** Whether a handlers module runs, whose threads report each start of a task. */
  readonly #hasModule: boolean;
  /** Number of tasks at a time in a thread. Built-in actions wait in the thread, which saves a round trip. */
  readonly #capacity: number;
  readonly #abortChannel = `task-aborts-${++pools}`;
  #aborts: BroadcastChannel | undefined;
  /** Tasks that wait for a thread, first come, first served. Bounded by the caller's window of deliveries. */
  readonly #waiting: Run[] = [];
  readonly #running = new Map<number, Run>();
  readonly #threads = new Set<Thread>();
  readonly #stopped = new AbortController();
  /** Resolves when all threads are ready, and rejects if one ends before. */
  readonly #opened = Promise.withResolvers<void>();
  /** Number of threads that have ended without a task since a task has ended. */
  #failures = 0;
  /** Whether a thread has failed to load, and none has loaded since. */
  #isFailing = false;
  #closed: Promise<void> | undefined;
  #runs = 0;
  #isStopping = false;
  #wakesAt = Number.POSITIVE_INFINITY;
  #cancelWake = () => {};

  private constructor(settings: Config['tasks'], parts: PoolParts, file: URL | undefined) {
    const { concurrency, overlap, prefetch, handlers } = settings;
    this.#settings = settings;
    this.#parts = parts;
    this.#file = file;
    this.#hasModule = handlers !== undefined;
    this.#hasProcesses = this.#hasModule && settings.isolation === 'process';
    this.#startMs = this.#hasProcesses ? PROCESS_START_MS : START_MS;
    this.threads = concurrency;
    this.overlap = this.#hasModule ? overlap : 1;
    this.#capacity = this.#hasModule ? overlap : Math.ceil(prefetch / concurrency);
    // Errors logged by handlers arrive as plain objects, whose `type` the default serializer would set to `Object`.
    this.#log = parts.log.child({}, { serializers: { err: (err) => err } });
    if (this.#hasModule) this.#aborts = new BroadcastChannel(this.#abortChannel);
  }

  /** Starts all threads. @throws {Error} if a thread cannot load its file in time */
  static async start(settings: Config['tasks'], parts: PoolParts, file?: URL): Promise<ThreadPool> {
    const pool = new ThreadPool(settings, parts, file);
    try {
      while (pool.#threads.size < pool.threads && !pool.#isFailing) pool.#startThread();
      await pool.#opened.promise;
      return pool;
    } catch (error) {
      await pool.stop(Promise.resolve());
      throw new Error(`the task threads do not start: ${(error as Error).message}`, { cause: error });
    }
  }

  /** Number of threads in which a handler runs. */
  get busy(): number {
    return [...this.#threads].filter(({ runs }) => runs.size > 0).length;
  }

  /** Whether tasks can start. False while no thread does. */
  get serving(): boolean {
    return !this.#isFailing || [...this.#threads].some(({ state }) => state === 'ready');
  }

  /** Runs a delivery's handler as soon as a thread is free, in the order of the calls. Never rejects. */
  run(delivery: Delivery, listener: AttemptListener): Promise<Outcome> {
    if (this.#isStopping) return Promise.resolve(STOPPED);
    const settings = this.#hasModule ? this.#parts.actions.get(actionOf(delivery) ?? '') : undefined;
    const run = new Run(++this.#runs, delivery, listener, settings);
    this.#waiting.push(run);
    this.#assign();
    return run.outcome;
  }

  /**
   * Cancels a delivery. If its handler has not started, the delivery ends as `released`, and `cancel` returns true.
   * Otherwise, aborts the handler's signal, and ends the handler's thread after the grace period.
   */
  cancel(delivery: Delivery): boolean {
    const index = this.#waiting.findIndex((run) => run.delivery === delivery);
    if (index >= 0) {
      this.#waiting.splice(index, 1)[0]?.end({ ended: 'released', reason: 'cancelled' });
      return true;
    }
    const run = [...this.#running.values()].find((each) => each.delivery === delivery);
    if (run === undefined || run.isCancelled) return false;
    run.isCancelled = true;
    // A built-in action has no signal, and ends soon.
    if (run.settings !== undefined) this.#abort(run, { run: run.number, reason: 'cancelled' });
    return false;
  }

  /** Ends all deliveries whose handlers have not started as `released`. */
  releaseWaiting(): void {
    for (const run of this.#waiting.splice(0)) run.end({ ended: 'released', reason: 'no thread was free' });
  }

  /** Aborts the signals of all handlers, waits until they have ended or `deadline` resolves, and ends all threads. */
  async stop(deadline: Promise<void>): Promise<void> {
    this.#isStopping = true;
    this.releaseWaiting();
    this.#aborts?.postMessage({ run: 'all', reason: 'shutdown' } satisfies AbortRequest);
    await Promise.race([Promise.all([...this.#running.values()].map(({ outcome }) => outcome)), deadline]);
    this.#closed ??= this.#close();
    await this.#closed;
  }

  /** Gives waiting tasks to threads, in order, as long as there is room. */
  #assign(): void {
    for (let run = this.#waiting[0]; run !== undefined; run = this.#waiting[0]) {
      const thread = this.#threadFor(run);
      if (thread === undefined) return;
      this.#waiting.shift();
      this.#runIn(run, thread);
    }
  }

  #limitOf({ settings }: Run): number {
    return settings?.timeoutMs ?? this.#settings.timeoutMs;
  }

  /** Returns the least busy ready thread with room. A run that must be alone gets an empty one, which it does not share. */
  #threadFor({ isAlone }: Run): Thread | undefined {
    let found: Thread | undefined;
    let fewest = isAlone ? 1 : this.#capacity;
    for (const thread of this.#threads) {
      const { size } = thread.runs;
      if (thread.state !== 'ready' || size >= fewest) continue;
      const [first] = thread.runs;
      if (first?.isAlone) continue;
      found = thread;
      fewest = size;
    }
    return found;
  }

  #runIn(run: Run, thread: Thread): void {
    const { body, attempt, traceparent } = run.delivery;
    run.begin();
    this.#running.set(run.number, run);
    thread.runs.add(run);
    if (thread.runs.size === 1) this.#watchNext(thread);
    if (!this.#hasModule) run.start();
    // A thread that ends rejects the promise, and is handled where it ends.
    thread.worker?.run({ run: run.number, body, attempt, traceparent }).then(
      (answer) => this.#end(run, thread, answer),
      () => {},
    );
  }

  /** Called when a thread can begin with another of its tasks. */
  #watchNext(thread: Thread): void {
    const [first] = thread.runs;
    if (first === undefined) return;
    const now = this.#parts.clock.now();
    thread.dueAt = now + IDLE_MS;
    // A thread without a module runs its tasks in order, and does not report their starts.
    if (!this.#hasModule) first.deadline = now + this.#limitOf(first);
    this.#wakeAt(Math.min(first.deadline, thread.dueAt));
  }

  #end(run: Run, thread: Thread, { outcome, ms, acknowledged, progress }: TaskAnswer): void {
    if (!thread.runs.delete(run)) return;
    this.#running.delete(run.number);
    this.#failures = 0;
    this.#watchNext(thread);
    this.durations.observe(ms / 1000);
    // The answer may arrive before the messages that the thread has sent earlier.
    run.start();
    if (progress !== undefined) run.report(progress);
    if (acknowledged !== undefined) run.acknowledge(acknowledged);
    run.end(outcome);
    this.#assign();
  }

  #receive(message: FromTaskThread): void {
    try {
      const run = this.#running.get('run' in message ? message.run : 0);
      if ('logLine' in message) this.#writeLine(message.logLine);
      else if (run === undefined) return;
      else if ('started' in message) this.#start(run);
      else if ('acknowledged' in message) run.acknowledge(message.acknowledged === 'ack' ? 'ack' : 'nack');
      else run.report(checkedProgress(message.progress));
    } catch (error) {
      // A handlers module can send invalid messages through its thread's port.
      this.#log.warn({ reason: (error as Error).message }, 'a task thread sent an invalid message');
    }
  }

  #writeLine({ level, message, fields = '{}' }: HandlerLogLine): void {
    const isBounded = (text: unknown) => typeof text === 'string' && text.length <= MAX_LOG_PART_BYTES;
    if (!LEVELS.includes(level) || !isBounded(message) || !isBounded(fields)) throw new Error('invalid log line');
    // Removes the fields that the log itself sets, because duplicate field names would make the line ambiguous.
    const { level: _level, time: _time, msg: _msg, ...others } = JSON.parse(fields);
    this.#log[level](others, message);
  }

  #start(run: Run): void {
    if (run.isRunning) return;
    run.isRunning = true;
    run.start();
    run.deadline = this.#parts.clock.now() + this.#limitOf(run);
    this.#wakeAt(run.deadline);
    // The thread may have received the abort before the task.
    if (run.isAborted) this.#abort(run, { run: run.number, reason: 'cancelled' });
  }

  /** Aborts a handler's signal. Its thread is ended if the handler still runs after the grace period. */
  #abort(run: Run, request: AbortRequest): void {
    this.#aborts?.postMessage(request);
    run.isAborted = true;
    run.deadline = this.#parts.clock.now() + this.#settings.cancelGraceMs;
    this.#wakeAt(run.deadline);
  }

  #wakeAt(time: number): void {
    if (time >= this.#wakesAt || this.#stopped.signal.aborted) return;
    const { clock } = this.#parts;
    this.#cancelWake();
    this.#wakesAt = time;
    this.#cancelWake = clock.timer(time - clock.now(), () => {
      this.#wakesAt = Number.POSITIVE_INFINITY;
      const now = clock.now();
      for (const thread of this.#threads) {
        if (dueOf(thread) <= now) this.#expire(thread, now);
        this.#wakeAt(dueOf(thread));
      }
    });
  }

  #expire(thread: Thread, now: number): void {
    const expired = [...thread.runs].filter(({ deadline }) => deadline <= now);
    if (thread.state === 'loading') {
      thread.dueAt = Number.POSITIVE_INFINITY;
      this.#opened.reject(new Error('no answer'));
      void thread.worker?.terminate();
    } else if (expired.length === 0) {
      // For example, a timer that a handler has left behind blocks the thread.
      this.#parts.log.error('a blocked task thread is replaced');
      thread.isBlameless = true;
      this.#terminate(thread);
    }
    for (const run of expired) {
      run.hasTimedOut ||= !run.isAborted;
      if (run.isAborted || run.settings === undefined) this.#terminate(thread);
      else this.#abort(run, { run: run.number, reason: 'timeout', limitMs: this.#limitOf(run) });
    }
  }

  #terminate(thread: Thread): void {
    thread.state = 'ending';
    void thread.worker?.terminate();
  }

  /** Decides what becomes of the tasks of a thread that has ended, and replaces the thread. */
  #onEnd(thread: Thread, reason: string): void {
    if (!this.#threads.delete(thread)) return;
    this.#opened.reject(new Error(reason));
    const again: Run[] = [];
    if (!this.#isStopping) this.#replace(thread, reason);
    for (const run of thread.runs) {
      this.#running.delete(run.number);
      const isKnown = thread.runs.size === 1 && !thread.isBlameless;
      const cause = run.hasTimedOut ? `took longer than ${this.#limitOf(run)} ms` : reason;
      if (isKnown) run.end({ ended: 'crashed', reason: cause });
      else if (!run.mayRunAgain || this.#isStopping) run.end({ ended: 'released', reason });
      else again.push(run);
      // It is not known which of several tasks is to blame.
      run.isAlone ||= !thread.isBlameless;
    }
    thread.runs.clear();
    this.#waiting.unshift(...again);
    this.#assign();
  }

  #startThread(): void {
    const { memoryMb, handlers: module, bodyLimit: maxOutputBytes } = this.#settings;
    const [capacity, abortChannel] = [this.#capacity, this.#abortChannel];
    const start: TaskThreadStart = { module, maxOutputBytes, abortChannel, capacity, memoryMb };
    const dueAt = this.#parts.clock.now() + this.#startMs;
    const thread: Thread = { state: 'loading', dueAt, runs: new Set(), isBlameless: false };
    this.#threads.add(thread);
    const listener = {
      onMessage: (message: FromTaskThread) => this.#receive(message),
      onError: (error: Error | null) => this.#onError(thread, error),
      onEnd: (reason: string) => this.#onEnd(thread, reason),
    };
    try {
      thread.worker = this.#hasProcesses
        ? startTaskProcess(start, listener)
        : startTaskThread(start, listener, this.#file);
      void thread.worker.loaded.then(() => this.#onLoaded(thread));
      this.#wakeAt(dueAt);
    } catch (error) {
      // For example, there is no memory for another thread.
      this.#onEnd(thread, (error as Error).message);
    }
  }

  #onLoaded(thread: Thread): void {
    if (thread.state !== 'loading') return;
    thread.state = 'ready';
    if (this.#isFailing) this.#parts.log.info('the task threads run again');
    this.#isFailing = false;
    const ready = [...this.#threads].filter(({ state }) => state === 'ready');
    if (ready.length === this.threads) this.#opened.resolve();
    this.#assign();
  }

  #onError(thread: Thread, error: Error | null): void {
    if (thread.state !== 'ready') return;
    thread.state = 'ending';
    if (thread.runs.size === 0) this.#parts.log.error({ err: error }, 'a task thread died outside of a task');
  }

  /** Starts another thread: at once after the end of a task's thread, and otherwise after a delay that grows. */
  #replace({ state, runs }: Thread, reason: string): void {
    const { clock, log } = this.#parts;
    const delayMs = runs.size > 0 ? 0 : Math.min(REPLACE_DELAY_MS * 2 ** this.#failures, LONGEST_REPLACE_DELAY_MS);
    this.#failures = runs.size > 0 ? 0 : this.#failures + 1;
    if (state === 'loading') {
      this.#isFailing = true;
      log.error({ reason, delayMs }, 'a task thread does not start: it is replaced');
    } else if (state === 'ready' && this.#hasProcesses) {
      log.error({ reason, delayMs }, 'the process of a task thread ended: it is replaced');
    }
    if (delayMs === 0) {
      this.#startThread();
      return;
    }
    void clock.sleep(delayMs, this.#stopped.signal).then(() => {
      if (!this.#isStopping) this.#startThread();
    });
  }

  async #close(): Promise<void> {
    this.#stopped.abort();
    this.#cancelWake();
    // The end of the threads is not the fault of their tasks.
    for (const thread of this.#threads) thread.isBlameless = true;
    await Promise.all([...this.#threads].map(({ worker }) => worker?.terminate()));
    this.#aborts?.close();
    this.#aborts = undefined;
  }
}

function dueOf({ state, dueAt, runs }: Thread): number {
  if (state === 'loading') return dueAt;
  if (state === 'ending' || runs.size === 0) return Number.POSITIVE_INFINITY;
  const due = Math.min(...[...runs].map(({ deadline }) => deadline));
  return due === Number.POSITIVE_INFINITY ? dueAt : due;
}

function checkedProgress({ fraction, note }: TaskProgress): TaskProgress {
  const isNote = note === undefined || (typeof note === 'string' && note.length <= MAX_NOTE);
  if (!(fraction >= 0 && fraction <= 1) || typeof fraction !== 'number' || !isNote) throw new Error('invalid progress');
  return { fraction, ...(note !== undefined && { note }) };
}

/** The part of the pool that other modules use. */
export type TaskPool = Pick<
  ThreadPool,
  'threads' | 'overlap' | 'busy' | 'serving' | 'durations' | 'run' | 'cancel' | 'releaseWaiting' | 'stop'
>;
