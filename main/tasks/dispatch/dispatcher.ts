import { EventEmitter, once } from 'node:events';
import type { Delivery, QueueCounts, Settled, Settlement, SettleResult, Taken } from '../../../db/task-store.ts';
import type { Clock, Random } from '../../../workers/shared/clock.ts';
import { Histogram, TASK_DURATION_BOUNDS } from '../../../workers/shared/histogram.ts';
import type { HandlersManifest } from '../../../workers/tasks/messages.ts';
import type { Log } from '../../log/log.ts';
import { CounterByLabel } from '../../metrics/metrics-table.ts';
import { oncePerTurn } from '../../once-per-turn.ts';
import type { Outcome, TaskPool } from '../pool/task-pool.ts';
import type { Queue } from '../queue.ts';
import { decide, type RetryPolicy, retryPolicies } from './retry-policy.ts';
import { type Effect, Settlements } from './settlements.ts';

export interface DispatcherOptions {
  queue: Queue;
  pool: Pick<TaskPool, 'run' | 'cancel' | 'releaseWaiting' | 'stop'>;
  /** Maximum number of deliveries in flight: taken from the queue, and not ended. */
  prefetch: number;
  actions?: HandlersManifest;
  clock: Clock;
  random: Pick<Random, 'number'>;
  log: Log;
}

/** Pause before the next attempt after a failed take. */
const RETAKE_MS = 1000;
/** A node of several looks for messages at least this often, because a wake-up may be lost or rows be locked. */
const POLL_MS = 1000;

/** Takes deliveries from the queue, runs each in the pool, and settles it according to the outcome. */
export class Dispatcher {
  readonly metrics = new DispatchMetrics();
  readonly #options: DispatcherOptions;
  readonly #policyOf: (delivery: Delivery) => RetryPolicy;
  readonly #settlements: Settlements;
  readonly #fillSoon = oncePerTurn(() => this.#fill());
  /** Deliveries in the window. */
  #inFlight = 0;
  /** Handlers that have not ended. Some have settled their delivery, which frees its place in the window. */
  #running = 0;
  #isTaking = false;
  /** Reason why the last take failed. */
  #takeFailure: string | undefined;
  #isStarted = false;
  #isStopped = false;
  /** When the window is filled next, by a timer. */
  #fillsAt = Number.POSITIVE_INFINITY;
  #cancelTimer = () => {};
  readonly #ignorePauses: () => void;
  readonly #progress = new EventEmitter();

  constructor(options: DispatcherOptions) {
    const { queue, pool, actions = new Map(), clock, log } = options;
    this.#options = options;
    this.#policyOf = retryPolicies(actions);
    const onWritten = (settled: readonly Settled[], result: SettleResult) => this.#onWritten(settled, result);
    this.#settlements = new Settlements({ queue, onWritten, clock, log });
    queue.onReady(this.#fillSoon);
    queue.onCancel((delivery) => pool.cancel(delivery));
    this.#ignorePauses = queue.onPauseChange((isPaused) => {
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
    this.#fill();
  }

  /**
   * Waits until all messages are settled, the queue is paused or `deadline` resolves. After `abort` resolves, also
   * returns while a delivery is in flight, so that the caller can abort the delivery's handler.
   */
  async drain(deadline: Promise<void>, abort: Promise<void> = deadline): Promise<void> {
    let isOver = false;
    let isAbortDue = false;
    void deadline.then(() => {
      isOver = true;
      this.#advance();
    });
    void abort.then(() => {
      isAbortDue = true;
      this.#advance();
    });
    const { queue } = this.#options;
    const isDone = () => isOver || queue.isPaused || (isAbortDue && this.#inFlight > 0);
    while (!isDone()) {
      // Counts only when nothing is in flight, because it queries the store.
      if (this.#inFlight === 0 && this.#settlements.isEmpty && unsettled(await queue.counts()) === 0) return;
      await this.#nextProgress();
    }
  }

  /**
   * Releases unstarted deliveries at once, ends running ones when `deadline` resolves, and writes all settlements.
   *
   * @returns whether all settlements are written
   */
  async stop(deadline: Promise<void>): Promise<boolean> {
    this.#isStopped = true;
    this.#ignorePauses();
    this.#cancelTimer();
    await this.#options.pool.stop(deadline);
    while (this.#running > 0 || this.#isTaking) await this.#nextProgress();
    return this.#settlements.finish();
  }

  #fill(): void {
    if (!this.#isStarted || this.#isStopped || this.#isTaking || this.#settlements.isFull) return;
    const { queue, prefetch } = this.#options;
    // The settlements of a node of several are sent with its next take.
    if (queue.store.isShared || queue.isPaused) this.#settlements.flush();
    const free = prefetch - this.#inFlight;
    if (free <= 0 || queue.isPaused) return;
    this.#isTaking = true;
    try {
      const taken = queue.take(free, this.#running === 0);
      if (taken instanceof Promise)
        taken.then(
          (later) => this.#receive(later, free),
          (error: unknown) => this.#failTake(error),
        );
      else this.#receive(taken, free);
    } catch (error) {
      this.#failTake(error);
    }
  }

  #receive({ deliveries, nextRunAt }: Taken, free: number): void {
    this.#isTaking = false;
    this.#takeFailure = undefined;
    const { queue, clock } = this.#options;
    for (const delivery of deliveries) {
      // The queue may have been paused or stopped while the take was under way.
      if (queue.isPaused || this.#isStopped) this.#settle(delivery, { kind: 'release' });
      else void this.#process(delivery);
    }
    this.#advance();
    if (deliveries.length === free || this.#isStopped) return;
    if (deliveries.length === 0) this.#settlements.flush();
    const never = Number.POSITIVE_INFINITY;
    this.#fillAfter(Math.min((nextRunAt ?? never) - clock.now(), queue.store.isShared ? POLL_MS : never));
  }

  #failTake(error: unknown): void {
    this.#isTaking = false;
    const reason = (error as Error).message;
    this.#takeFailure = reason;
    this.#options.log.error({ reason, delayMs: RETAKE_MS }, 'tasks cannot be taken: all tasks wait');
    this.#advance();
    if (!this.#isStopped) this.#fillAfter(RETAKE_MS);
  }

  /** One timer waits for whatever is due first. */
  #fillAfter(delayMs: number): void {
    const { clock } = this.#options;
    const time = clock.now() + delayMs;
    if (time >= this.#fillsAt) return;
    this.#cancelTimer();
    this.#fillsAt = time;
    this.#cancelTimer = clock.timer(delayMs, () => {
      this.#fillsAt = Number.POSITIVE_INFINITY;
      this.#fill();
    });
  }

  async #process(delivery: Delivery): Promise<void> {
    const { queue, pool, clock } = this.#options;
    this.#inFlight += 1;
    this.#running += 1;
    // A death of the process must not be counted for tasks that have ended before.
    if (delivery.isSuspect) await this.#settlements.written();
    /** Resolves with whether the handler's ack or nack before its end was an ack that took effect. */
    let early: Promise<boolean> | undefined;
    const outcome = await pool.run(delivery, {
      onStart: () => {
        if (delivery.attempt === 1) this.metrics.observeWait(clock.now() - delivery.dueAt);
        queue.reportStart(delivery);
      },
      onProgress: (progress) => queue.reportProgress(delivery, progress),
      onAcknowledged: (how) => {
        this.#inFlight -= 1;
        early = new Promise((resolve) => {
          const settlement: Settlement = how === 'ack' ? { kind: 'ack' } : this.#decide(delivery, NACKED);
          this.#settle(delivery, settlement, (effect) => resolve(how === 'ack' && effect === 'applied'));
        });
      },
    });
    const settlement = this.#decide(delivery, outcome);
    if (early === undefined) {
      this.#inFlight -= 1;
      this.#settle(delivery, settlement);
    }
    // Before the wait for the ack, because a stop that waits for the handler abandons writes that fail.
    this.#running -= 1;
    // A suspect waits until no handler runs. A handler that has settled its delivery early may still run.
    this.#fillSoon();
    this.#advance();
    if (settlement.kind === 'complete' && (await early)) {
      this.#settle(delivery, { kind: 'row', result: settlement.result });
    }
  }

  #decide(delivery: Delivery, outcome: Outcome): Settlement {
    return decide(delivery, outcome, this.#options, this.#policyOf(delivery));
  }

  #settle(delivery: Delivery, settlement: Settlement, onEffect?: (effect: Effect) => void): void {
    this.#settlements.add({ delivery, settlement }, onEffect);
    this.#fillSoon();
  }

  #onWritten(settled: readonly Settled[], { effects }: SettleResult): void {
    for (const [index, { delivery, settlement }] of settled.entries()) {
      const effect = effects[index];
      if (effect === 'late') continue;
      this.metrics.count(effect === 'cancelled' ? { kind: 'cancel' } : settlement);
      if (effect === 'applied') this.#log(delivery, settlement);
    }
    this.#fillSoon();
    this.#advance();
  }

  #log({ id, attempt }: Delivery, settlement: Settlement): void {
    if (settlement.kind !== 'retry' && settlement.kind !== 'discard') return;
    const { kind: decision, ...rest } = settlement;
    this.#options.log.warn({ task: id, attempt, decision, ...rest }, 'task failed');
  }

  #nextProgress(): Promise<unknown> {
    return once(this.#progress, 'progress');
  }

  #advance(): void {
    this.#progress.emit('progress');
  }
}

/** Metrics of settled deliveries. */
export class DispatchMetrics {
  completed = 0;
  readonly retried = new CounterByLabel(['error', 'crash']);
  /** Number of discarded tasks, by cause. */
  readonly dead = new CounterByLabel(['permanent', 'attempts', 'crashes']);
  /** Time in seconds from when a task became due to the start of its first attempt. */
  readonly waits = new Histogram(TASK_DURATION_BOUNDS);

  count(settlement: Settlement): void {
    if (settlement.kind === 'complete' || settlement.kind === 'ack') this.completed += 1;
    if (settlement.kind === 'retry') this.retried.count(settlement.failure === 'crash' ? 'crash' : 'error');
    if (settlement.kind === 'discard') this.dead.count(CAUSES[settlement.failure]);
  }

  observeWait(ms: number): void {
    this.waits.observe(Math.max(0, ms) / 1000);
  }
}

const CAUSES = { permanent: 'permanent', transient: 'attempts', crash: 'crashes' } as const;

/** Outcome of an attempt that its handler has nacked. */
export const NACKED: Outcome = { ended: 'raised', reason: 'negatively acknowledged by its handler', permanent: false };

/** Returns the number of messages that are waiting, retrying or in flight. */
export function unsettled({ waiting, retrying, inFlight }: QueueCounts): number {
  return waiting + retrying + inFlight;
}
