import { EventEmitter, once } from 'node:events';
import type * as db from '../../../db/task-store.ts';
import { CALLBACK_ACTION } from '../../../db/task-store.ts';
import { alarm, type Clock, oncePerTurn, type Random } from '../../../workers/shared/clock.ts';
import { Histogram, TASK_DURATION_BOUNDS } from '../../../workers/shared/histogram.ts';
import { builtInActions } from '../../../workers/tasks/actions.ts';
import type { HandlersManifest } from '../../../workers/tasks/messages.ts';
import type { Log } from '../../log/log.ts';
import { ByAction, CounterByLabel } from '../../metrics/metrics-table.ts';
import type { CallbackSender } from '../callbacks/callback-sender.ts';
import type { Outcome } from '../pool/run.ts';
import type { ThreadPool } from '../pool/thread-pool.ts';
import type { Queue } from '../queue.ts';
import { decide, retriesOf } from './retry-policy.ts';
import { type Pending, Settlements } from './settlements.ts';

export interface DispatcherOptions {
  queue: Queue;
  pool: Pick<ThreadPool, 'run' | 'cancel' | 'releaseWaiting' | 'stop'>;
  callbacks: Pick<CallbackSender, 'isUsed' | 'run' | 'cancel' | 'stop'>;
  /** Maximum number of deliveries in the window: taken from the queue, not ended, and no callbacks. */
  prefetch: number;
  actions: HandlersManifest;
  clock: Clock;
  random: Pick<Random, 'number'>;
  log: Log;
}

/** Maximum number of callbacks outside of the window. Others hold places in it. */
const MAX_CALLBACKS = 1000;
const RETAKE_MS = 1000;
/** A node of several looks for messages at least this often, because a wake-up may be lost or rows be locked. */
const POLL_MS = 1000;

/** Takes deliveries from the queue, runs each in the pool, and settles it according to the outcome. */
export class Dispatcher {
  readonly metrics: DispatchMetrics;
  readonly #options: DispatcherOptions;
  readonly #settlements: Settlements;
  readonly #fillSoon = oncePerTurn(() => void this.#fill());
  #inFlight = 0;
  /** Handlers that have not ended. Some have settled their delivery, which frees its place in the window. */
  #running = 0;
  /** Callbacks in flight, which hold no place in the window. */
  #callbacks = 0;
  /** When to look for callbacks while the window is full. */
  #nextLookAt = 0;
  #isTaking = false;
  #takeFailure: string | undefined;
  #isStarted = false;
  #isStopped = false;
  /** Fills the window. */
  readonly #alarm: ReturnType<typeof alarm>;
  readonly #changes = new EventEmitter();

  constructor(options: DispatcherOptions) {
    const { queue, pool, callbacks, clock, log } = options;
    this.#options = options;
    this.#alarm = alarm(clock, () => void this.#fill());
    this.metrics = new DispatchMetrics([...options.actions.keys(), ...builtInActions, CALLBACK_ACTION]);
    const onWritten = (settled: readonly db.Settled[], result: db.SettleResult) => this.#onWritten(settled, result);
    this.#settlements = new Settlements({ queue, onWritten, clock, log });
    queue.onCancel((delivery) => (isCallback(delivery) ? callbacks : pool).cancel(delivery));
    queue.on('ready', this.#fillSoon);
    queue.on('limits', () => pool.releaseWaiting());
    queue.on('pause', (isPaused) => {
      if (isPaused) pool.releaseWaiting();
      this.#fillSoon();
      this.#advance();
    });
  }

  /** Reason why the queue cannot be read or written. Undefined after the next success. */
  get writeFailure(): string | undefined {
    return this.#settlements.failure ?? this.#takeFailure;
  }

  start(): void {
    this.#isStarted = true;
    void this.#fill();
  }

  /**
   * Waits until no message waits or is in flight, the queue is paused or `deadline` resolves. After `abort` resolves, also
   * returns while a delivery is in flight, so that the caller can abort the delivery's handler. Scheduled and limited
   * messages and retries are left, because they may wait for hours. A limited message begins to wait in the transaction
   * that frees its place.
   */
  async drain(deadline: Promise<void>, abort: Promise<void> = deadline): Promise<void> {
    const { queue } = this.#options;
    const reached = new Set<Promise<void>>();
    for (const promise of [deadline, abort]) {
      void promise.then(() => {
        reached.add(promise);
        this.#advance();
      });
    }
    const isDone = () => reached.has(deadline) || queue.isPaused || (reached.has(abort) && this.#inFlight > 0);
    while (!isDone()) {
      // Before the counts, so that no change is missed while they are read.
      const changed = once(this.#changes, 'change');
      // Counts only when nothing is in flight, because it queries the store.
      if (this.#inFlight === 0 && this.#settlements.isEmpty) {
        const { waiting, inFlight } = await queue.counts();
        if (waiting + inFlight === 0) return;
      }
      await changed;
    }
  }

  /** Releases unstarted deliveries and ends running ones at `deadline`. Returns whether all settlements are written. */
  async stop(deadline: Promise<void>): Promise<boolean> {
    this.#isStopped = true;
    this.#alarm.stop();
    this.#options.callbacks.stop();
    await this.#options.pool.stop(deadline);
    while (this.#running > 0 || this.#isTaking) await once(this.#changes, 'change');
    return this.#settlements.finish();
  }

  async #fill(): Promise<void> {
    if (!this.#isStarted || this.#isStopped || this.#isTaking || this.#settlements.isFull) return;
    const { queue, prefetch } = this.#options;
    // The settlements of a node of several are sent with its next take.
    if (queue.store.isShared || queue.isPaused) this.#settlements.flush();
    const free = prefetch - this.#inFlight;
    if (queue.isPaused || (free <= 0 && !this.#looksForCallbacks())) return;
    this.#isTaking = true;
    try {
      // A suspect may end the process. The death must not be counted for tasks that have ended before.
      const isIdle = this.#running === this.#callbacks && this.#settlements.isEmpty;
      const take = free > 0 ? queue.take(free, isIdle) : queue.takeCallbacks(MAX_CALLBACKS - this.#callbacks);
      this.#receive(await take, free);
    } catch (error) {
      this.#isTaking = false;
      const reason = (error as Error).message;
      this.#takeFailure = reason;
      this.#options.log.error({ reason, delayMs: RETAKE_MS }, 'tasks cannot be taken: all tasks wait');
      this.#advance();
      this.#alarm.set(this.#options.clock.now() + RETAKE_MS);
    }
  }

  /** Whether to take callbacks although the window is full: at most once a second, or if one has just ended. */
  #looksForCallbacks(): boolean {
    const { clock, callbacks } = this.#options;
    if (!callbacks.isUsed || this.#callbacks >= MAX_CALLBACKS) return false;
    const now = clock.now();
    const isDue = now >= this.#nextLookAt;
    if (isDue) this.#nextLookAt = now + POLL_MS;
    this.#alarm.set(this.#nextLookAt);
    return isDue;
  }

  #receive({ deliveries, nextRunAt }: db.Taken, free: number): void {
    this.#isTaking = false;
    this.#takeFailure = undefined;
    const { queue, clock } = this.#options;
    for (const delivery of deliveries) {
      // The queue may have been paused or stopped while the take was under way.
      if (queue.isPaused || this.#isStopped) this.#settle({ delivery, settlement: { kind: 'release' } });
      else void this.#process(delivery);
    }
    this.#advance();
    if (this.#isStopped) return;
    // Callbacks hold no place, so more may be taken.
    if (deliveries.some(isCallback)) this.#fillSoon();
    if (deliveries.length === free) return;
    if (deliveries.length === 0) this.#settlements.flush();
    if (nextRunAt !== undefined) this.#alarm.set(nextRunAt);
    if (queue.store.isShared) this.#alarm.set(clock.now() + POLL_MS);
  }

  async #process(delivery: db.Delivery): Promise<void> {
    const { queue, pool, callbacks, clock } = this.#options;
    const isOutside = isCallback(delivery) && this.#callbacks < MAX_CALLBACKS;
    if (isOutside) this.#callbacks += 1;
    else this.#inFlight += 1;
    this.#running += 1;
    /** Resolves with whether the handler's ack or nack before its end was an ack that took effect. */
    let early: Promise<boolean> | undefined;
    let startedAt: number | undefined;
    // The duration of an attempt contains no jump of the clock.
    let offset = clock.now() - clock.elapsed();
    const times = () => ({ startedAt, endedAt: Math.round(offset + clock.elapsed()) });
    const outcome = await (isCallback(delivery) ? callbacks : pool).run(delivery, {
      onStart: () => {
        startedAt = clock.now();
        offset = startedAt - clock.elapsed();
        const waitedMs = Math.max(0, startedAt - delivery.dueAt);
        if (delivery.attempt === 1) this.metrics.attempts.of(delivery.action).waits.observe(waitedMs / 1000);
        if (delivery.attempt === 1 && !isCallback(delivery)) this.metrics.waits.observe(waitedMs / 1000);
        queue.reportStart(delivery, startedAt);
      },
      onProgress: (progress) => queue.reportProgress(delivery, progress),
      onAcknowledged: (how) => {
        this.#inFlight -= 1;
        early = new Promise((resolve) => {
          const settlement: db.Settlement = how === 'ack' ? { kind: 'ack' } : this.#decide(delivery, NACKED);
          const onEffect: Pending['onEffect'] = (effect) => resolve(how === 'ack' && effect === 'applied');
          this.#settle({ delivery, settlement, ...times(), onEffect });
        });
      },
    });
    const settlement = this.#decide(delivery, outcome);
    const settled = { delivery, settlement, ...times() };
    if (isOutside) {
      this.#callbacks -= 1;
      this.#nextLookAt = 0;
    }
    if (early === undefined) {
      if (!isOutside) this.#inFlight -= 1;
      this.#settle(settled);
    }
    // Before the wait for the ack, because a stop that waits for the handler abandons writes that fail.
    this.#running -= 1;
    // A suspect waits until no handler runs. A handler that has settled its delivery early may still run.
    this.#fillSoon();
    this.#advance();
    if (settlement.kind === 'complete' && (await early)) {
      this.#settle({ ...settled, settlement: { kind: 'row', result: settlement.result } });
    }
  }

  #decide(delivery: db.Delivery, outcome: Outcome): db.Settlement {
    return decide(delivery, outcome, retriesOf(delivery, this.#options.actions), this.#options);
  }

  #settle(settled: Pending): void {
    this.#settlements.add(settled);
    this.#fillSoon();
  }

  #onWritten(settled: readonly db.Settled[], { effects }: db.SettleResult): void {
    for (const [index, ended] of settled.entries()) {
      const effect = effects[index];
      if (effect === 'late') continue;
      const { delivery, settlement } = ended;
      this.metrics.count(ended, effect === 'cancelled' ? 'cancel' : settlement.kind);
      const { kind: decision, ...details } = settlement;
      if (effect !== 'applied' || (decision !== 'retry' && decision !== 'discard')) continue;
      const { id: task, action, attempt } = delivery;
      this.#options.log.warn({ task, action, attempt, decision, ...details }, 'task failed');
    }
    this.#fillSoon();
    this.#advance();
  }

  #advance(): void {
    this.#changes.emit('change');
  }
}

function isCallback({ callbackOf }: db.Delivery): boolean {
  return callbackOf !== undefined;
}

export class DispatchMetrics {
  completed = 0;
  readonly retried = new CounterByLabel(['error', 'crash']);
  readonly dead = new CounterByLabel(['permanent', 'attempts', 'crashes']);
  /** Ended attempts by outcome, their durations, and the waits of first attempts, in seconds. */
  readonly attempts: ByAction<{ outcomes: CounterByLabel; durations: Histogram; waits: Histogram }>;
  /** Time in seconds from when a task, other than a callback, became due to the start of its first attempt. */
  readonly waits = new Histogram(TASK_DURATION_BOUNDS);

  constructor(actions: readonly string[]) {
    this.attempts = new ByAction(actions, () => {
      const outcomes = new CounterByLabel(Object.values(OUTCOMES));
      return { outcomes, durations: new Histogram(TASK_DURATION_BOUNDS), waits: new Histogram(TASK_DURATION_BOUNDS) };
    });
  }

  /** @param kind that of the settlement, or `cancel` if the task had been cancelled meanwhile */
  count({ delivery, settlement, startedAt, endedAt }: db.Settled, kind: db.Settlement['kind']): void {
    const outcome = OUTCOMES[kind];
    if (outcome === undefined || (kind === 'cancel' && startedAt === undefined)) return;
    const { outcomes, durations } = this.attempts.of(delivery.action);
    outcomes.count(outcome);
    if (startedAt !== undefined && endedAt !== undefined) durations.observe((endedAt - startedAt) / 1000);
    if (outcome === 'completed') this.completed += 1;
    if (settlement.kind !== kind) return;
    if (settlement.kind === 'retry') this.retried.count(settlement.failure === 'crash' ? 'crash' : 'error');
    if (settlement.kind === 'discard') this.dead.count(CAUSES[settlement.failure]);
  }

  /** Counts a task that was dead-lettered because its processes died. */
  countLost({ action }: db.TaskSubject): void {
    this.attempts.of(action).outcomes.count('failed');
    this.dead.count('crashes');
  }
}

/** Outcomes of attempts by settlement. Other settlements end no attempt. */
const OUTCOMES: Partial<Record<db.Settlement['kind'], string>> = {
  ...{ complete: 'completed', ack: 'completed', retry: 'retried', discard: 'failed', cancel: 'cancelled' },
};
const CAUSES = { permanent: 'permanent', transient: 'attempts', crash: 'crashes' } as const;

export const NACKED: Outcome = { ended: 'raised', reason: 'negatively acknowledged by its handler', permanent: false };
