import { EventEmitter } from 'node:events';
import { setImmediate } from 'node:timers/promises';
import type { Fired, Firing } from '../../db/schedules.ts';
import type { Found } from '../../db/task-rows.ts';
import type * as db from '../../db/task-store.ts';
import { dueAt, QueueFull } from '../../db/task-store.ts';
import type { Clock } from '../../workers/shared/clock.ts';
import { type Filter, select } from './search.ts';
import type { QueueEvent, TaskChange, TaskEvent } from './task-events.ts';

/** Message between the nodes of a shared queue. */
export type NodeMessage =
  /** Messages became due, so an idle node may take some. */
  | { topic: 'ready' }
  /** The cancellation of a running task was recorded. Its owner ends the attempt. */
  | { topic: 'cancel'; id: string }
  /** The queue was paused or resumed. The table says which. Sent by the transaction of the store. */
  | { topic: 'pause' }
  /** Limits have changed, so messages that were taken and have not started must be taken again. */
  | { topic: 'limits' }
  | { topic: 'event'; event: TaskEvent };

/** Connects the queues of several nodes. A message may be lost, so everything it says can be read from the tables. */
export interface QueueBus {
  send(message: NodeMessage): void;
  /** `onMissed` is called after messages may have been missed. */
  listen(onMessage: (message: NodeMessage) => void, onMissed: () => void): void;
  /** While true, other nodes send their task events to this node. */
  follow(isFollowing: boolean): void;
}

export interface QueueOptions {
  store: db.TaskStore;
  /** Connects the nodes that share the store. Undefined on a single node. */
  bus?: QueueBus | undefined;
  onEvent: (event: QueueEvent) => void;
  clock: Clock;
}

/** Counts of the queue, with what only processes know. */
export interface LiveCounts extends db.QueueCounts {
  running: number;
  refused: number;
}

/** A message that this process has taken. */
interface InFlight {
  delivery: db.Delivery;
  startedAt: number | undefined;
  progress: db.TaskProgress | undefined;
  /** Whether a cancellation has deleted the message. */
  isCancelled: boolean;
  onSettled: ((isCancelled: boolean) => void) | undefined;
}

const CANCELLED_SLICE = 500;
/** Longest wait for the settlement of an attempt that was withdrawn. */
const WITHDRAWAL_MS = 1000;
/** Interval at which a node of several tells the others the start and progress of its attempts. */
const REPORT_MS = 500;
const REREAD_MS = 250;

/** `ready` if `take` may return deliveries, `limits` after a change of limits. */
interface QueueEvents {
  ready: [];
  limits: [];
  pause: [isPaused: boolean];
}

/**
 * The task queue: its store, and what only this process knows, such as the progress of its attempts. A method that is
 * named like one of the store does the same, and reports the events.
 */
export class Queue extends EventEmitter<QueueEvents> {
  /** Counts of the last call of `counts`, at most a second old while the monitor runs. */
  lastCounts: LiveCounts | undefined;
  /** Submissions that this process refused because the queue was full, and when it refused the last one. */
  readonly refused: { count: number; lastAt: number | undefined } = { count: 0, lastAt: undefined };
  cancelled = 0;
  isPaused = false;
  /** When the queue was paused, in milliseconds since the epoch. */
  pausedAt: number | undefined;
  /** Direct access for what concerns no attempt of this process. */
  readonly store: db.TaskStore;
  readonly #options: QueueOptions;
  /** By task id. At most `TASK_PREFETCH`, the callbacks in flight, and settlements that wait for their commit. */
  readonly #inFlight = new Map<string, InFlight>();
  #endAttempt: (delivery: db.Delivery) => boolean = () => false;
  #cancelReport: (() => void) | undefined;
  /** The last read of the tables that has begun or waits to begin. */
  #lastRead = Promise.resolve();
  /** The read of the tables that waits for the previous one to end. */
  #nextRead: Promise<void> | undefined;
  #cancelReread = () => {};
  #isClosed = false;

  private constructor(options: QueueOptions) {
    super();
    this.#options = options;
    this.store = options.store;
  }

  static async open(options: QueueOptions): Promise<Queue> {
    const queue = new Queue(options);
    // Before the first read, so that no change falls between the two.
    options.bus?.listen(
      (message) => {
        if (message.topic === 'ready') queue.emit('ready');
        else if (message.topic === 'cancel') void queue.#withdraw(queue.#inFlight.get(message.id));
        else if (message.topic === 'limits') queue.emit('limits');
        else if (message.topic === 'pause') void queue.#reread();
        else if (message.topic === 'event') options.onEvent(message.event);
      },
      () => {
        queue.emit('limits');
        void queue.#reread();
      },
    );
    await queue.#reread();
    return queue;
  }

  publish(message: db.Message, key?: db.IdempotencyKey): Promise<db.Published> {
    const published = this.store.publish(message, key, () => this.#onAccepted([message]));
    return published.catch((error) => this.#refuse(1, error));
  }

  publishAll(submissions: readonly db.Submission[]): Promise<readonly (db.Published | db.KeyReused)[]> {
    const published = this.store.publishAll(submissions, (messages) => this.#onAccepted(messages));
    return published.catch((error) => this.#refuse(submissions.length, error));
  }

  fire(firing: Firing): Promise<Fired> {
    const { task } = firing;
    return this.store.schedules.fire(firing, () => this.#onAccepted(task === undefined ? [] : [task.message]));
  }

  runNow(id: string): Promise<db.RunNow | undefined> {
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
    const { outcome, ...task } = cancellation;
    if (outcome === 'cancelled') {
      this.#emit({ id, ...task }, { event: 'cancelled' });
      // The callback of the task may be taken.
      this.emit('ready');
    }
    if (outcome !== 'requested') return outcome;
    const current = this.#inFlight.get(id);
    if (inFlight === undefined && current === undefined) this.#options.bus?.send({ topic: 'cancel', id });
    // The message may have been released and taken again before the request was written.
    const isTakenAgain = current !== undefined && current !== inFlight;
    return (await (isTakenAgain ? this.#withdraw(current) : withdrawn)) ? 'cancelled' : 'requested';
  }

  /**
   * Cancels the tasks of these ids, or the unfinished ones that match and are accepted now, in slices.
   *
   * @returns the number of tasks that were cancelled or whose attempts are being ended, and of the tasks that remain because
   *   a later slice failed, with the cause
   */
  async cancelAll(selected: Filter): Promise<{ count: number; remaining: number; cause?: unknown }> {
    const ids = selected.ids ? [...new Set(selected.ids)] : await this.#unfinished(selected);
    let count = 0;
    for (let start = 0; start < ids.length; start += CANCELLED_SLICE) {
      const slice = ids.slice(start, start + CANCELLED_SLICE);
      // In one transaction, because they are requested in one turn.
      const results = await Promise.allSettled(slice.map((id) => this.cancel(id)));
      const done = results.filter((each) => 'value' in each && ['cancelled', 'requested'].includes(each.value ?? ''));
      count += done.length;
      const failures = results.filter((each) => each.status === 'rejected');
      if (failures[0] === undefined) continue;
      if (count === 0) throw failures[0].reason;
      const remaining = failures.length + Math.max(0, ids.length - start - CANCELLED_SLICE);
      return { count, remaining, cause: failures[0].reason };
    }
    return { count, remaining: 0 };
  }

  /** Returns ids of unfinished tasks. Positions tell which were accepted before, because the clocks of nodes may differ. */
  async #unfinished({ state = 'unfinished', ...filter }: Filter): Promise<string[]> {
    const [newest] = (await this.store.reads.search({}, undefined, 1)).found;
    const found = await this.#select({ ...filter, state });
    return found.flatMap(({ id, arrival }) => (newest && arrival <= newest.arrival ? [id] : []));
  }

  async setPaused(isPaused: boolean): Promise<void> {
    try {
      await this.store.setPaused(isPaused, this.#options.clock.now());
    } finally {
      // A change whose answer failed may have been stored.
      await this.#reread();
    }
  }

  async find(id: string): Promise<db.FoundTask | undefined> {
    const found = await this.store.reads.find(id);
    return found !== undefined && 'message' in found ? { message: this.#withAttempt(found.message) } : found;
  }

  async read(ids: readonly string[], bodyLength?: number): Promise<db.StoredMessage[]> {
    return (await this.store.reads.read(ids, bodyLength)).map((message) => this.#withAttempt(message));
  }

  /** Requeues dead letters, oldest first. @param perSecond tasks that become due per second; by default, all at once */
  async redrive(selection: Filter, perSecond?: number): Promise<db.BulkResult> {
    const arrivals = await this.#deadLetters(selection);
    const pace =
      perSecond === undefined ? undefined : { from: this.#options.clock.now(), intervalMs: 1000 / perSecond };
    let index = 0;
    const announce = (tasks: readonly db.TaskSubject[]) => {
      for (const task of tasks) {
        this.#emit(task, pace ? { event: 'scheduled', runAt: dueAt(pace, index) } : { event: 'accepted' });
        index += 1;
      }
      // Not only after the last slice and its sync.
      this.#announceReady();
    };
    let isWhole = false;
    try {
      const result = await this.store.redrive(arrivals, announce, pace);
      isWhole = result.remaining === 0;
      return result;
    } finally {
      // A slice may have been requeued although its answer was lost.
      if (!isWhole) this.#announceReady();
    }
  }

  async purge(selection: Filter): Promise<db.BulkResult> {
    const result = await this.store.purge(await this.#deadLetters(selection));
    this.#emitPurged(result.done);
    return result;
  }

  /** Returns the positions of dead letters, oldest first. */
  async #deadLetters(selection: Filter): Promise<number[]> {
    const letters = await this.#select({ ...selection, state: 'failed' });
    return letters.map(({ arrival }) => arrival).reverse();
  }

  /** Gives other requests their turn between slices, because a local store answers at once. */
  #select(filter: Filter): Promise<Found[]> {
    return select(this.store.reads, filter, () => setImmediate());
  }

  async counts(): Promise<LiveCounts> {
    const { running, ...counts } = await this.store.counts();
    const started = [...this.#inFlight.values()].filter(({ startedAt }) => startedAt !== undefined).length;
    // An attempt that has ended is in flight until its settlement is written.
    const live = { running: running ?? Math.min(started, counts.inFlight), refused: this.refused.count };
    this.lastCounts = { ...counts, ...live };
    return this.lastCounts;
  }

  /** Sets the limits of an action, or removes them. Once this resolves, no task starts beyond them. */
  setLimits(action: string, limits: db.ActionLimits | undefined, source: db.LimitSource): Promise<void> {
    return this.store.setLimits(action, limits, source, () => {
      this.emit('limits');
      this.#options.bus?.send({ topic: 'limits' });
      this.#announceReady();
    });
  }

  /** Sets the function that ends a delivery's attempt, and returns true if the attempt had not started. */
  onCancel(endAttempt: (delivery: db.Delivery) => boolean): void {
    this.#endAttempt = endAttempt;
  }

  async take(max: number, isIdle: boolean): Promise<db.Taken> {
    return this.#receive(await this.store.take(max, isIdle));
  }

  async takeCallbacks(max: number): Promise<db.Taken> {
    return this.#receive(await this.store.takeCallbacks(max));
  }

  reportStart(delivery: db.Delivery, startedAt = this.#options.clock.now()): void {
    const inFlight = this.#current(delivery);
    if (inFlight === undefined || inFlight.startedAt !== undefined) return;
    inFlight.startedAt = startedAt;
    this.#emit(delivery, { event: 'started', attempt: delivery.attempt }, startedAt);
    // The next take tells when the start is over.
    if (!delivery.isRated) this.#reportSoon();
    else void this.#report([{ delivery, startedAt, progress: undefined }]).then(() => this.emit('ready'));
  }

  reportProgress(delivery: db.Delivery, progress: db.TaskProgress): void {
    const inFlight = this.#current(delivery);
    if (inFlight === undefined) return;
    inFlight.progress = progress;
    this.#emit(delivery, { event: 'progress', attempt: delivery.attempt, ...progress });
    this.#reportSoon();
  }

  async settle(settled: readonly db.Settled[]): Promise<db.SettleResult> {
    const result = await this.store.settle(settled);
    const now = this.#options.clock.now();
    for (const [index, each] of settled.entries()) {
      const change = changeOf(each, result.effects[index]);
      const inFlight = this.#current(each.delivery);
      if (inFlight !== undefined) {
        this.#inFlight.delete(each.delivery.id);
        inFlight.isCancelled = change?.event === 'cancelled';
        inFlight.onSettled?.(inFlight.isCancelled);
      }
      if (change !== undefined) this.#emit(each.delivery, change, now);
    }
    this.#emitPurged(result.evicted);
    if (settled.some(({ settlement }) => settlement.kind === 'release')) this.#announceReady();
    return result;
  }

  reportRecovery({ failed, cancelled, evicted }: db.Recovery): void {
    for (const { attempts, reason, ...task } of failed) this.#emit(task, { event: 'failed', attempts, reason });
    for (const task of cancelled) this.#emit(task, { event: 'cancelled' });
    this.#emitPurged(evicted);
  }

  close(): void {
    this.#isClosed = true;
    this.#cancelReport?.();
    this.#cancelReread();
  }

  #refuse(count: number, error: unknown): never {
    if (error instanceof QueueFull) {
      this.refused.count += count;
      this.refused.lastAt = this.#options.clock.now();
    }
    throw error;
  }

  #receive(taken: db.Taken): db.Taken {
    for (const delivery of taken.deliveries) {
      const state = { delivery, startedAt: undefined, progress: undefined, isCancelled: false, onSettled: undefined };
      this.#inFlight.set(delivery.id, state);
      // The end of its task has accepted a callback without an event.
      if (delivery.callbackOf !== undefined && delivery.delivery === 1) this.#emit(delivery, { event: 'accepted' });
    }
    return taken;
  }

  /** Ends an attempt. If it has not started, resolves with whether a requested cancellation has deleted its message. */
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
      const isPaused = await this.store.isPaused();
      this.pausedAt = isPaused ? await this.store.reads.pausedAt() : undefined;
      const isChanged = isPaused !== this.isPaused;
      this.isPaused = isPaused;
      if (isChanged) this.emit('pause', isPaused);
      if (!isPaused) this.emit('ready');
      for (const id of await this.store.cancelRequests([...this.#inFlight.keys()])) {
        void this.#withdraw(this.#inFlight.get(id));
      }
    } catch {
      // Until a read succeeds, because a node that believes that the queue is paused takes nothing.
      if (!this.#isClosed) this.#cancelReread = this.#options.clock.timer(REREAD_MS, () => void this.#reread());
    }
  }

  #onAccepted(messages: readonly db.Message[]): void {
    for (const message of messages) {
      const { runAt } = message;
      this.#emit(message, runAt === undefined ? { event: 'accepted' } : { event: 'scheduled', runAt });
    }
    this.#announceReady();
  }

  #announceReady(): void {
    this.emit('ready');
    this.#options.bus?.send({ topic: 'ready' });
  }

  #current(delivery: db.Delivery): InFlight | undefined {
    const inFlight = this.#inFlight.get(delivery.id);
    return inFlight?.delivery === delivery ? inFlight : undefined;
  }

  /** Adds what this process knows of a running attempt. A delivery that has not started is shown as queued. */
  #withAttempt(message: db.StoredMessage): db.StoredMessage {
    const inFlight = message.state === 'running' ? this.#inFlight.get(message.id) : undefined;
    return inFlight === undefined
      ? message
      : { ...message, startedAt: inFlight.startedAt, progress: inFlight.progress ?? message.progress };
  }

  #reportSoon(): void {
    if (!this.store.isShared) return;
    this.#cancelReport ??= this.#options.clock.timer(REPORT_MS, () => {
      this.#cancelReport = undefined;
      const running = [...this.#inFlight.values()].flatMap(({ delivery, startedAt, progress }) =>
        startedAt === undefined ? [] : [{ delivery, startedAt, progress }],
      );
      if (running.length > 0) void this.#report(running);
    });
  }

  async #report(running: readonly db.Report[]): Promise<void> {
    try {
      await this.store.report(running);
    } catch {
      // Not repeated: the next report replaces it, and a settlement counts as the start if none was stored.
    }
  }

  #emitPurged(tasks: readonly db.TaskSubject[]): void {
    for (const task of tasks) this.#emit(task, { event: 'purged' });
  }

  #emit({ id, action, limitKey, submitter }: db.TaskSubject, change: TaskChange, at = this.#options.clock.now()): void {
    if (change.event === 'cancelled') this.cancelled += 1;
    const owner = limitKey === undefined && submitter === undefined ? undefined : { limitKey, submitter };
    const event = { ...change, id, action, ...owner, at };
    this.#options.onEvent(event);
    this.#options.bus?.send({ topic: 'event', event });
  }
}

/** Returns the change of a task by a settlement with this effect. A row that follows an ack changes nothing. */
function changeOf({ delivery, settlement }: db.Settled, effect: db.Effect | undefined): TaskChange | undefined {
  if (effect !== 'applied') return effect === 'cancelled' ? { event: 'cancelled' } : undefined;
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
