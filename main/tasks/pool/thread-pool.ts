import { fileURLToPath } from 'node:url';
import { Piscina, queueOptionsSymbol } from 'piscina';
import type { Delivery } from '../../../db/task-store.ts';
import { alarm, type Clock } from '../../../workers/shared/clock.ts';
import { Histogram, TASK_DURATION_BOUNDS } from '../../../workers/shared/histogram.ts';
import type { ModuleSources } from '../../../workers/shared/user-module.ts';
import { actionOf } from '../../../workers/submissions/parse-submission.ts';
import type {
  AbortRequest,
  FromTaskThread,
  HandlerLogLine,
  HandlersManifest,
  TaskAnswer,
  TaskThreadStart,
  ToTaskThread,
} from '../../../workers/tasks/messages.ts';
import type { Config } from '../../config.ts';
import type { Log } from '../../log/log.ts';
import { threadFile } from '../../threads/supervised-thread.ts';
import { type AttemptListener, type Outcome, Run, STOPPED } from './run.ts';
import { TaskProcesses, type TaskThreads } from './task-processes.ts';

/** Time limit for a thread to load its files, and for a child process. */
const START_MS = 10_000;
const PROCESS_START_MS = 20_000;
/** Time limit for a thread to start one of the tasks that were given to it. */
const IDLE_MS = 15_000;
/** Delay before threads that fail to start are replaced. Doubles with each further replacement. */
const REPLACE_DELAY_MS = 50;
const LONGEST_REPLACE_DELAY_MS = 5_000;

interface Thread {
  readonly id: number;
  /** `leaving`: ended once its runs have ended, because it has loaded an older handlers module. */
  state: 'loading' | 'ready' | 'leaving' | 'ending';
  /** Time limit for the thread to load, or to start one of its tasks. */
  dueAt: number;
  /** Runs that were given to the thread, oldest first. */
  readonly runs: Set<Run>;
  /** Whether the thread is ended for a reason unrelated to its tasks. */
  isBlameless: boolean;
  readonly sources: ModuleSources | undefined;
}

interface PoolParts {
  actions: HandlersManifest;
  /** Files of the handlers module, if it is watched. */
  sources?: ModuleSources | undefined;
  clock: Clock;
  log: Log;
}

/** Number of pools that this process has created, for the names of their channels. */
let pools = 0;

/**
 * Runs each task by a call of Piscina, in a thread that this pool chooses as Piscina's load balancer. Piscina's own queue
 * stays empty, because it serves tasks that need a thread of their own last in, first out.
 */
export class ThreadPool {
  readonly threads: number;
  readonly overlap: number;
  readonly durations = new Histogram(TASK_DURATION_BOUNDS);
  readonly #settings: Config['tasks'];
  readonly #parts: PoolParts;
  readonly #file: URL;
  /** Whether each thread is in a child process of its own. */
  readonly #hasProcesses: boolean;
  readonly #startMs: number;
  readonly #log: Log;
  /** Whether a handlers module runs, whose threads report each start of a task. */
  readonly #hasModule: boolean;
  /** Number of tasks at a time in a thread. Built-in actions wait in the thread, which saves a round trip. */
  readonly #capacity: number;
  readonly #abortChannel = `task-aborts-${++pools}`;
  /** Read by each new thread. */
  readonly #threadStart: TaskThreadStart;
  #aborts: BroadcastChannel | undefined;
  /** Tasks that wait for a thread, first come, first served. Bounded by the caller's window of deliveries. */
  readonly #waiting: Run[] = [];
  readonly #running = new Map<number, Run>();
  readonly #threads = new Map<number, Thread>();
  readonly #stopped = new AbortController();
  #piscina: TaskThreads;
  #replacing: Promise<void> | undefined;
  #closed: Promise<void> | undefined;
  #runs = 0;
  #isStopping = false;
  /** Checks the time limits. */
  readonly #alarm: ReturnType<typeof alarm>;

  private constructor(settings: Config['tasks'], parts: PoolParts, file: URL) {
    const { concurrency, overlap, prefetch, handlers } = settings;
    this.#settings = settings;
    this.#parts = parts;
    this.#alarm = alarm(parts.clock, () => this.#checkAll(), 'elapsed');
    this.#file = file;
    this.#hasModule = handlers !== undefined;
    this.#hasProcesses = this.#hasModule && settings.isolation === 'process';
    this.#startMs = this.#hasProcesses ? PROCESS_START_MS : START_MS;
    this.threads = concurrency;
    this.overlap = this.#hasModule ? overlap : 1;
    this.#capacity = this.#hasModule ? overlap : Math.ceil(prefetch / concurrency);
    // Errors logged by handlers arrive as plain objects, whose `type` the default serializer would set to `Object`.
    this.#log = parts.log.child({}, { serializers: { err: (err) => err } });
    const { memoryMb, bodyLimit: maxOutputBytes } = settings;
    this.#threadStart = {
      ...{ module: handlers, sources: parts.sources, maxOutputBytes, abortChannel: this.#abortChannel, memoryMb },
      ...{ overlap: this.overlap, rejectUnknown: settings.unknownActions === 'reject' },
    };
    this.#piscina = this.#create();
    if (this.#hasModule) this.#aborts = new BroadcastChannel(this.#abortChannel);
  }

  /** Starts and tests all threads. @throws {Error} if a thread cannot load its file or does not answer */
  static async start(settings: Config['tasks'], parts: PoolParts, file = threadFile('tasks/task-worker')) {
    const pool = new ThreadPool(settings, parts, file);
    try {
      await pool.#open();
      return pool;
    } catch (error) {
      await pool.stop(Promise.resolve());
      throw new Error(`the task threads do not start: ${(error as Error).message}`, { cause: error });
    }
  }

  /** Number of threads in which a handler runs. */
  get busy(): number {
    return [...this.#threads.values()].filter(({ runs }) => runs.size > 0).length;
  }

  /** Returns the id of the thread to which a task was given. */
  threadOf(task: string): number | undefined {
    return [...this.#threads.values()].find(({ runs }) => [...runs].some(({ delivery }) => delivery.id === task))?.id;
  }

  /** Whether tasks can start. False while threads that do not start are being replaced. */
  get serving(): boolean {
    return this.#replacing === undefined;
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

  /** Replaces each thread after the end of its handlers. The new thread loads these files of the handlers module. */
  reload(sources: ModuleSources): void {
    this.#threadStart.sources = sources;
    for (const thread of this.#threads.values()) if (thread.state === 'ready') this.#leave(thread);
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

  #leave(thread: Thread): void {
    thread.state = 'leaving';
    if (thread.runs.size === 0) this.#terminate(thread);
  }

  #limitOf({ settings }: Run): number {
    return settings?.timeoutMs ?? this.#settings.timeoutMs;
  }

  /** Returns the least busy ready thread with room. A run that must be alone gets an empty one, which it does not share. */
  #threadFor({ isAlone }: Run): Thread | undefined {
    let found: Thread | undefined;
    let fewest = isAlone ? 1 : this.#capacity;
    for (const thread of this.#threads.values()) {
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
    const message = { run: run.number, body, attempt, traceparent, [queueOptionsSymbol]: thread };
    // A thread that ends rejects the promise, and is handled where it ends.
    this.#piscina.run(message).then(
      (answer) => this.#end(run, thread, answer),
      () => {},
    );
  }

  /** Called when a thread can begin with another of its tasks. */
  #watchNext(thread: Thread): void {
    const [first] = thread.runs;
    if (first === undefined) return;
    const now = this.#parts.clock.elapsed();
    thread.dueAt = now + IDLE_MS;
    // A thread without a module runs its tasks in order, and does not report their starts.
    if (!this.#hasModule) first.deadline = now + this.#limitOf(first);
    this.#alarm.set(Math.min(first.deadline, thread.dueAt));
  }

  #end(run: Run, thread: Thread, { outcome, ms, acknowledged, progress }: TaskAnswer): void {
    if (!thread.runs.delete(run)) return;
    this.#running.delete(run.number);
    this.#watchNext(thread);
    this.durations.observe(ms / 1000);
    // The answer may arrive before the messages that the thread has sent earlier.
    run.start();
    if (progress !== undefined) run.report(progress);
    if (acknowledged !== undefined) run.acknowledge(acknowledged);
    run.end(outcome);
    if (thread.state === 'leaving') this.#leave(thread);
    this.#assign();
  }

  #receive(message: FromTaskThread): void {
    try {
      const run = this.#running.get('run' in message ? message.run : 0);
      if ('logLine' in message) this.#writeLine(message.logLine);
      else if (run === undefined) return;
      else if ('started' in message) this.#start(run);
      else if ('acknowledged' in message) run.acknowledge(message.acknowledged === 'ack' ? 'ack' : 'nack');
      else run.report(message.progress);
    } catch (error) {
      // A handlers module can send messages of its own through its thread's port.
      this.#log.warn({ reason: (error as Error).message }, 'a task thread sent an invalid message');
    }
  }

  #writeLine({ level, message, fields = '{}' }: HandlerLogLine): void {
    // Removes the fields that the log itself sets, because duplicate field names would make the line ambiguous.
    const { level: _level, time: _time, msg: _msg, ...others } = JSON.parse(fields);
    this.#log[level](others, message);
  }

  #start(run: Run): void {
    if (run.isRunning) return;
    run.isRunning = true;
    run.start();
    run.deadline = this.#parts.clock.elapsed() + this.#limitOf(run);
    this.#alarm.set(run.deadline);
    // The thread may have received the abort before the task.
    if (run.isAborted) this.#abort(run, { run: run.number, reason: 'cancelled' });
  }

  /** Aborts a handler's signal. Its thread is ended if the handler still runs after the grace period. */
  #abort(run: Run, request: AbortRequest): void {
    this.#aborts?.postMessage(request);
    run.isAborted = true;
    run.deadline = this.#parts.clock.elapsed() + this.#settings.cancelGraceMs;
    this.#alarm.set(run.deadline);
  }

  #checkAll(): void {
    for (const thread of this.#threads.values()) {
      const now = this.#parts.clock.elapsed();
      if (dueOf(thread) <= now) this.#expire(thread, now);
      this.#alarm.set(dueOf(thread));
    }
  }

  #expire(thread: Thread, now: number): void {
    const expired = [...thread.runs].filter(({ deadline }) => deadline <= now);
    if (thread.state === 'loading') this.#replaceAll();
    else if (expired.length === 0) {
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
    void this.#piscina.threads.find(({ threadId }) => threadId === thread.id)?.terminate();
  }

  /** Decides what becomes of the tasks of a thread that has ended. */
  #onExit(thread: Thread, reason: string): void {
    this.#threads.delete(thread.id);
    const again: Run[] = [];
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

  #create(): TaskThreads {
    const start = this.#threadStart;
    const pool = this.#hasProcesses ? new TaskProcesses(start, this.threads) : this.#createPiscina(start);
    pool.on('message', (message: FromTaskThread) => this.#receive(message));
    pool.on('error', (error: Error) => {
      // After a failed start, the thread that replaces the failed one fails as well while the pool closes.
      if (this.#closed === undefined) this.#parts.log.error({ err: error }, 'a task thread died outside of a task');
    });
    return pool;
  }

  #createPiscina(workerData: TaskThreadStart): Piscina {
    return new Piscina({
      filename: fileURLToPath(this.#file),
      minThreads: this.threads,
      maxThreads: this.threads,
      concurrentTasksPerWorker: this.#capacity,
      loadBalancer: (task, workers) => {
        const { id } = task[queueOptionsSymbol] as Thread;
        return workers.find((worker) => worker.id === id) ?? null;
      },
      workerData,
      resourceLimits: { maxOldGenerationSizeMb: workerData.memoryMb },
      recordTiming: false,
      // By default, Piscina stops the event loop of an idle thread, which would delay aborts and the timers of
      // handlers that have ended. The option `atomics` would also keep the main thread from receiving several answers in one turn.
      env: { ...process.env, PISCINA_DISABLE_ATOMICS: '1' },
    });
  }

  /** Tests all new threads. @throws {Error} if a thread cannot load its file or does not answer */
  async #open(): Promise<void> {
    const piscina = this.#piscina;
    const tested = new AbortController();
    const timeout = this.#parts.clock.sleep(this.#startMs, AbortSignal.any([tested.signal, this.#stopped.signal]));
    const threads = piscina.threads.map((worker) => this.#watch(worker));
    const test = (thread: Thread) => piscina.run({ selfTest: true, [queueOptionsSymbol]: thread } as ToTaskThread);
    const noAnswer = timeout.then(() => Promise.reject(new Error('no answer')));
    await Promise.race([noAnswer, Promise.all(threads.map(test))]).finally(() => tested.abort());
    // Until here, nothing watches the replacement of a thread that ended after its own test.
    const present = new Set(piscina.threads.map(({ threadId }) => threadId));
    if (threads.some(({ id }) => !present.has(id))) throw new Error('a thread ended during the test');
    for (const thread of threads) this.#onLoaded(thread);
    piscina.on('workerCreate', ({ id }: { id: number }) => this.#onLoaded(this.#threads.get(id)));
    // Piscina starts the new thread in the same turn.
    piscina.on('workerDestroy', () => queueMicrotask(() => this.#watchNew()));
  }

  #watch(worker: TaskThreads['threads'][number]): Thread {
    const id = worker.threadId;
    const dueAt = this.#parts.clock.elapsed() + this.#startMs;
    const { sources } = this.#threadStart;
    const thread: Thread = { id, state: 'loading', dueAt, runs: new Set(), isBlameless: false, sources };
    this.#threads.set(id, thread);
    let failure: string | undefined;
    worker.once('error', (error: Error | null) => {
      thread.state = 'ending';
      failure = error?.message;
    });
    // Earlier messages of the thread, such as an `ack`, have arrived by then.
    worker.once('exit', (end: number | string) => {
      const reason = typeof end === 'string' ? end : `thread died: ${failure ?? `exit code ${end}`}`;
      if (typeof end === 'string' && thread.state === 'ready')
        this.#parts.log.error({ reason }, 'the process of a task thread ended: it is replaced');
      this.#onExit(thread, reason);
    });
    return thread;
  }

  /** Watches the threads with which Piscina has replaced ended ones. It replaces none that ends while it loads. */
  #watchNew(): void {
    if (this.#stopped.signal.aborted || !this.serving) return;
    const { threads } = this.#piscina;
    for (const worker of threads) {
      if (!this.#threads.has(worker.threadId)) this.#alarm.set(dueOf(this.#watch(worker)));
    }
    if (threads.length < this.threads) this.#replaceAll();
  }

  #onLoaded(thread: Thread | undefined): void {
    if (thread?.state !== 'loading') return;
    thread.state = 'ready';
    if (thread.sources !== this.#threadStart.sources) this.#leave(thread);
    // Piscina gives no task to the thread before the end of this turn.
    queueMicrotask(() => this.#assign());
  }

  /** Replaces all threads if one does not start, because Piscina would keep tasks for it forever. */
  #replaceAll(): void {
    this.#replacing ??= this.#replace().finally(() => {
      this.#replacing = undefined;
      if (this.#isStopping) return;
      this.#parts.log.info('the task threads run again');
      this.#assign();
    });
  }

  async #replace(): Promise<void> {
    const { signal } = this.#stopped;
    for (let delayMs = REPLACE_DELAY_MS; !signal.aborted; delayMs = Math.min(delayMs * 2, LONGEST_REPLACE_DELAY_MS)) {
      this.#parts.log.error({ delayMs }, 'the task threads do not start: all are replaced');
      await this.#destroy();
      await this.#parts.clock.sleep(delayMs, signal);
      if (signal.aborted) return;
      try {
        this.#piscina = this.#create();
        return await this.#open();
      } catch {}
    }
  }

  async #close(): Promise<void> {
    this.#stopped.abort();
    this.#alarm.stop();
    await this.#replacing;
    await this.#destroy();
    this.#aborts?.close();
    this.#aborts = undefined;
  }

  /** Ends all threads. Their tasks are not to blame. */
  async #destroy(): Promise<void> {
    for (const thread of this.#threads.values()) {
      thread.state = 'ending';
      thread.isBlameless = true;
    }
    await this.#piscina.destroy();
  }
}

function dueOf({ state, dueAt, runs }: Thread): number {
  if (state === 'loading') return dueAt;
  if (state === 'ending' || runs.size === 0) return Number.POSITIVE_INFINITY;
  const due = Math.min(...[...runs].map(({ deadline }) => deadline));
  return due === Number.POSITIVE_INFINITY ? dueAt : due;
}
