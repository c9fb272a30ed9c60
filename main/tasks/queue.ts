import type {
  Awaitable,
  BulkResult,
  DeadLetterSelection,
  Delivery,
  FoundTask,
  IdempotencyKey,
  KeyReused,
  Message,
  Published,
  QueueCounts,
  Recovery,
  RunNow,
  Settled,
  SettleResult,
  StoredMessage,
  Submission,
  Taken,
  TaskProgress,
  TaskStore,
  TaskSubject,
} from '../../db/task-store.ts';
import type { Clock } from '../../workers/shared/clock.ts';
import type { QueueEvent, TaskChange, TaskEvent } from './task-events.ts';

/** Message between the nodes of a shared queue. */
export type NodeMessage =
  /** Messages became due, so an idle node may take some. */
  | { topic: 'ready' }
  /** The cancellation of a running task was recorded. Its owner ends the attempt. */
  | { topic: 'cancel'; id: string }
  /** The queue was paused or resumed. The table says which. */
  | { topic: 'pause' }
  | { topic: 'event'; event: TaskEvent };

/** Connects the queues of several nodes. A message may be lost, so everything it says can be read from the tables. */
export interface QueueBus {
  /** Sends a message to all other nodes, without waiting. */
  send(message: NodeMessage): void;
  /**
   * @param onMessage called with each message from another node
   * @param onMissed called after messages may have been missed
   */
  listen(onMessage: (message: NodeMessage) => void, onMissed: () => void): void;
  /** While true, other nodes send their task events to this node. */
  follow(isFollowing: boolean): void;
}

export interface QueueOptions {
  store: TaskStore;
  /** Connects the nodes that share the store. Undefined on a single node. */
  bus?: QueueBus | undefined;
  /** Called after the commit of each change. */
  onEvent: (event: QueueEvent) => void;
  clock: Clock;
}

/** A message that this process has taken. */
interface InFlight {
  delivery: Delivery;
  startedAt: number | undefined;
  progress: TaskProgress | undefined;
  /** Whether a cancellation has deleted the message. */
  isCancelled: boolean;
  /** Called with `isCancelled`. */
  onSettled: ((isCancelled: boolean) => void) | undefined;
}

/** Longest wait for the settlement of an attempt that was withdrawn. */
const WITHDRAWAL_MS = 1000;
/** Interval at which a node of several tells the others the start and progress of its attempts. */
const REPORT_MS = 500;
/** Time between a failed read of the tables and the next one. */
const REREAD_MS = 250;

/** The task queue: its store, and what only this process knows, such as the progress of its attempts. */
export class Queue {
  /** Counts of the last call of `counts`, at most a second old while the monitor runs. */
  lastCounts: QueueCounts | undefined;
  /** Number of tasks that this process has cancelled. */
  cancelled = 0;
  /** Direct access for what concerns no attempt of this process. */
  readonly store: TaskStore;
  readonly #options: QueueOptions;
  /** By task id. At most `TASK_PREFETCH`, and settlements that wait for their commit. */
  readonly #inFlight = new Map<string, InFlight>();
  readonly #pauseListeners = new Set<(isPaused: boolean) => void>();
  #isPaused = false;
  #onReady = () => {};
  #endAttempt: (delivery: Delivery) => boolean = () => false;
  #cancelReport: (() => void) | undefined;
  /** The last read of the tables that has begun or waits to begin. */
  #lastRead = Promise.resolve();
  /** The read of the tables that waits for the previous one to end. */
  #nextRead: Promise<void> | undefined;
  #cancelReread = () => {};
  #isClosed = false;

  private constructor(options: QueueOptions) {
    this.#options = options;
    this.store = options.store;
  }

  static async open(options: QueueOptions): Promise<Queue> {
    const queue = new Queue(options);
    // Before the first read, so that no change falls between the two.
    options.bus?.listen(
      (message) => {
        if (message.topic === 'ready') queue.#onReady();
        else if (message.topic === 'cancel') void queue.#withdraw(queue.#inFlight.get(message.id));
        else if (message.topic === 'pause') void queue.#reread();
        else if (message.topic === 'event') options.onEvent(message.event);
      },
      () => void queue.#reread(),
    );
    await queue.#reread();
    return queue;
  }

  get isPaused(): boolean {
    return this.#isPaused;
  }

  /** Accepts a message once per idempotency key. @throws {QueueFull | KeyReused} */
  publish(message: Message, key?: IdempotencyKey): Promise<Published> {
    return this.store.publish(message, key, () => this.#onAccepted([message]));
  }

  /** Accepts all messages or none. Returns the errors of keys that were used before. @throws {QueueFull} */
  publishAll(submissions: readonly Submission[]): Promise<readonly (Published | KeyReused)[]> {
    return this.store.publishAll(submissions, (messages) => this.#onAccepted(messages));
  }

  /** Makes a task due that is scheduled or retrying. Returns undefined if the task is unknown. */
  runNow(id: string): Promise<RunNow | undefined> {
    return this.store.runNow(id, (task) => {
      this.#emit(task, { event: 'accepted' });
      this.#announceReady();
    });
  }

  /**
   * Cancels a task.
   *
   * @returns `cancelled` if it left the queue, `requested` if its attempt is being ended, `ended` if it is completed or
   *   dead-lettered, undefined if it is unknown
   */
  async cancel(id: string): Promise<'cancelled' | 'requested' | 'ended' | undefined> {
    const inFlight = this.#inFlight.get(id);
    // Before the request is written, because the attempt could start meanwhile.
    const withdrawn = this.#withdraw(inFlight);
    const cancellation = await this.store.cancel(id);
    // The end of the attempt may have been written before the request.
    if (cancellation === undefined) return inFlight?.isCancelled ? 'cancelled' : undefined;
    const { outcome, action } = cancellation;
    if (outcome === 'cancelled') this.#emit({ id, action }, { event: 'cancelled' });
    if (outcome !== 'requested') return outcome;
    const current = this.#inFlight.get(id);
    if (inFlight === undefined && current === undefined) this.#options.bus?.send({ topic: 'cancel', id });
    // The message may have been released and taken again before the request was written.
    const isTakenAgain = current !== undefined && current !== inFlight;
    return (await (isTakenAgain ? this.#withdraw(current) : withdrawn)) ? 'cancelled' : 'requested';
  }

  async pause(): Promise<void> {
    await this.#storePause(true);
  }

  async resume(): Promise<void> {
    await this.#storePause(false);
  }

  /** Calls `listener` when any node pauses or resumes the queue. The returned function removes the listener. */
  onPauseChange(listener: (isPaused: boolean) => void): () => void {
    this.#pauseListeners.add(listener);
    return () => void this.#pauseListeners.delete(listener);
  }

  /** Returns the row of a task, or its message if it has no row. */
  async find(id: string): Promise<FoundTask | undefined> {
    const found = await this.store.find(id);
    return found !== undefined && 'message' in found ? { message: this.#withAttempt(found.message) } : found;
  }

  /** Returns the messages with these ids, with bodies cut to `bodyLength` characters. Deleted ones are left out. */
  async read(ids: readonly string[], bodyLength?: number): Promise<StoredMessage[]> {
    return (await this.store.read(ids, bodyLength)).map((message) => this.#withAttempt(message));
  }

  /** Requeues dead letters, oldest first, until the queue is full. */
  async redrive(selection: DeadLetterSelection): Promise<BulkResult> {
    try {
      return await this.store.redrive(selection, (tasks) => {
        for (const task of tasks) this.#emit(task, { event: 'accepted' });
      });
    } finally {
      // Messages may have been requeued before an error.
      this.#announceReady();
    }
  }

  /** Deletes dead letters. */
  async purge(selection: DeadLetterSelection): Promise<BulkResult> {
    const result = await this.store.purge(selection);
    this.#emitPurged(result.done);
    return result;
  }

  async counts(): Promise<QueueCounts> {
    this.lastCounts = await this.store.counts();
    return this.lastCounts;
  }

  /** Sets the listener that is called when `take` may return deliveries. */
  onReady(listener: () => void): void {
    this.#onReady = listener;
  }

  /** Sets the function that ends a delivery's attempt, and returns true if the attempt had not started. */
  onCancel(endAttempt: (delivery: Delivery) => boolean): void {
    this.#endAttempt = endAttempt;
  }

  take(max: number, isIdle: boolean): Awaitable<Taken> {
    const taken = this.store.take(max, isIdle);
    return taken instanceof Promise ? taken.then((later) => this.#receive(later)) : this.#receive(taken);
  }

  reportStart(delivery: Delivery): void {
    const inFlight = this.#current(delivery);
    if (inFlight === undefined || inFlight.startedAt !== undefined) return;
    inFlight.startedAt = this.#options.clock.now();
    this.#emit(delivery, { event: 'started', attempt: delivery.attempt });
    this.#reportSoon();
  }

  reportProgress(delivery: Delivery, progress: TaskProgress): void {
    const inFlight = this.#current(delivery);
    if (inFlight === undefined) return;
    inFlight.progress = progress;
    this.#emit(delivery, { event: 'progress', attempt: delivery.attempt, ...progress });
    this.#reportSoon();
  }

  /** Writes settlements in one transaction, then reports their effects. @throws {ValueRefused} */
  settle(settled: readonly Settled[]): Awaitable<SettleResult> {
    const result = this.store.settle(settled);
    if (result instanceof Promise) return result.then((later) => this.#onSettled(settled, later));
    return this.#onSettled(settled, result);
  }

  /** Reports the ends of tasks whose node has died. */
  reportRecovery({ failed, cancelled, evicted }: Recovery): void {
    for (const { attempts, reason, ...task } of failed) this.#emit(task, { event: 'failed', attempts, reason });
    for (const task of cancelled) this.#emit(task, { event: 'cancelled' });
    this.#emitPurged(evicted);
  }

  close(): void {
    this.#isClosed = true;
    this.#cancelReport?.();
    this.#cancelReread();
  }

  #receive(taken: Taken): Taken {
    for (const delivery of taken.deliveries) {
      const state = { delivery, startedAt: undefined, progress: undefined, isCancelled: false, onSettled: undefined };
      this.#inFlight.set(delivery.id, state);
    }
    return taken;
  }

  #onSettled(settled: readonly Settled[], result: SettleResult): SettleResult {
    for (const [index, each] of settled.entries()) {
      const effect = result.effects[index];
      const inFlight = this.#current(each.delivery);
      if (inFlight !== undefined) {
        this.#inFlight.delete(each.delivery.id);
        inFlight.isCancelled = effect === 'cancelled' || (effect === 'applied' && each.settlement.kind === 'cancel');
        inFlight.onSettled?.(inFlight.isCancelled);
      }
      const change = effect === 'applied' ? changeOf(each) : undefined;
      if (change !== undefined) this.#emit(each.delivery, change);
      if (effect === 'cancelled') this.#emit(each.delivery, { event: 'cancelled' });
    }
    this.#emitPurged(result.evicted);
    if (settled.some(({ settlement }) => settlement.kind === 'release')) this.#announceReady();
    return result;
  }

  /**
   * Ends an attempt. If it has not started, returns a promise of whether its message was deleted because its
   * cancellation was requested.
   */
  #withdraw(inFlight: InFlight | undefined): Promise<boolean> | undefined {
    if (inFlight === undefined || !this.#endAttempt(inFlight.delivery)) return undefined;
    return new Promise((resolve) => {
      // While settlements cannot be written, the cancellation stays requested.
      const cancelTimer = this.#options.clock.timer(WITHDRAWAL_MS, () => resolve(false));
      inFlight.onSettled = (isCancelled) => {
        cancelTimer();
        resolve(isCancelled);
      };
    });
  }

  /**
   * Reads the state that lost messages of other nodes would have reported. Calls during a read lead to one more read
   * after it, so that an older state never replaces a newer one.
   *
   * @returns a promise that resolves after the next read, even if that read failed and will be retried
   */
  #reread(): Promise<void> {
    this.#nextRead ??= this.#lastRead.then(() => {
      this.#nextRead = undefined;
      return this.#read();
    });
    this.#lastRead = this.#nextRead;
    return this.#nextRead;
  }

  async #read(): Promise<void> {
    this.#cancelReread();
    if (this.#isClosed) return;
    try {
      this.#setPaused(await this.store.isPaused());
      for (const id of await this.store.cancelRequests([...this.#inFlight.keys()])) {
        void this.#withdraw(this.#inFlight.get(id));
      }
    } catch {
      // Until a read succeeds, because a node that believes that the queue is paused takes nothing.
      if (!this.#isClosed) this.#cancelReread = this.#options.clock.timer(REREAD_MS, () => void this.#reread());
    }
  }

  async #storePause(isPaused: boolean): Promise<void> {
    try {
      await this.store.setPaused(isPaused);
    } finally {
      // A change whose answer failed may have been stored.
      await this.#reread();
      this.#options.bus?.send({ topic: 'pause' });
    }
  }

  #setPaused(isPaused: boolean): void {
    if (isPaused !== this.#isPaused) {
      this.#isPaused = isPaused;
      for (const listener of this.#pauseListeners) listener(isPaused);
    }
    if (!isPaused) this.#onReady();
  }

  #onAccepted(messages: readonly Message[]): void {
    for (const message of messages) {
      const { runAt } = message;
      this.#emit(message, runAt === undefined ? { event: 'accepted' } : { event: 'scheduled', runAt });
    }
    this.#announceReady();
  }

  #announceReady(): void {
    this.#onReady();
    this.#options.bus?.send({ topic: 'ready' });
  }

  #current(delivery: Delivery): InFlight | undefined {
    const inFlight = this.#inFlight.get(delivery.id);
    return inFlight?.delivery === delivery ? inFlight : undefined;
  }

  /** Adds what this process knows of a running attempt. A delivery that has not started is shown as queued. */
  #withAttempt(message: StoredMessage): StoredMessage {
    const inFlight = message.state === 'running' ? this.#inFlight.get(message.id) : undefined;
    return inFlight === undefined
      ? message
      : { ...message, startedAt: inFlight.startedAt, progress: inFlight.progress ?? message.progress };
  }

  #reportSoon(): void {
    if (this.store.report === undefined) return;
    this.#cancelReport ??= this.#options.clock.timer(REPORT_MS, () => {
      this.#cancelReport = undefined;
      const running = [...this.#inFlight.values()].flatMap(({ delivery, startedAt, progress }) =>
        startedAt === undefined ? [] : [{ delivery, startedAt, progress }],
      );
      // A failed report is not repeated, because the next one replaces it.
      if (running.length > 0) void Promise.resolve(this.store.report?.(running)).catch(() => {});
    });
  }

  #emitPurged(tasks: readonly TaskSubject[]): void {
    for (const task of tasks) this.#emit(task, { event: 'purged' });
  }

  #emit({ id, action }: TaskSubject, change: TaskChange): void {
    if (change.event === 'cancelled') this.cancelled += 1;
    const event = { ...change, id, action, at: this.#options.clock.now() };
    this.#options.onEvent(event);
    this.#options.bus?.send({ topic: 'event', event });
  }
}

/** Returns what an applied settlement changes for its task. A row that follows an ack changes nothing. */
function changeOf({ delivery, settlement }: Settled): TaskChange | undefined {
  switch (settlement.kind) {
    case 'complete':
    case 'ack':
      return { event: 'completed' };
    case 'retry':
      return { event: 'retrying', attempts: delivery.attempt, reason: settlement.reason, dueAt: settlement.runAt };
    case 'discard':
      return { event: 'failed', attempts: delivery.attempt, reason: settlement.reason };
    case 'cancel':
      return { event: 'cancelled' };
    default:
      return undefined;
  }
}
