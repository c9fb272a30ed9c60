import type { HandlersManifest } from '../../../workers/handlers-manifest.ts';
import type { Awaitable } from '../../awaitable.ts';
import type { Log } from '../../log.ts';
import { oncePerTurn } from '../once-per-turn.ts';
import type { Outcome, WorkerPool } from '../pool/worker-pool.ts';
import type { Delivery, Queue, Settlement } from '../queue/queue.ts';
import { DiscardCheck } from './discard-check.ts';
import { DispatchMetrics } from './dispatch-metrics.ts';
import { decide, discardExhausted, type RetryPolicy, retryPolicies } from './retry-policy.ts';
import { WriteBackoff } from './write-backoff.ts';

export interface DispatcherOptions {
  queue: Queue;
  pool: Pick<WorkerPool, 'run' | 'cancel' | 'releaseWaiting' | 'stop'>;
  /** Maximum number of deliveries in flight: taken from the queue, but not settled. */
  prefetch: number;
  decide?: (delivery: Delivery, outcome: Outcome, policy: RetryPolicy) => Settlement;
  actions?: HandlersManifest;
  /** Returns whether a task's result row is stored. May throw. */
  isStored?: (id: string) => Awaitable<boolean>;
  log: Log;
}

/** Takes deliveries from the queue, runs each delivery in the pool, and settles it according to the outcome. */
export class Dispatcher {
  readonly metrics = new DispatchMetrics();
  readonly #options: Required<DispatcherOptions>;
  readonly #queue: Queue;
  readonly #policyOf: (body: string) => RetryPolicy;
  readonly #backoff = new WriteBackoff(() => this.start());
  readonly #fillSoon = oncePerTurn(() => this.#fill());
  readonly #discardCheck: DiscardCheck;
  #inFlight = 0;
  #taking = false;
  /** Number of operations that `stop` must wait for: unrecorded settlements and a pending `take`. */
  #unfinished = 0;
  #stopped = false;
  #unsubscribe = () => {};
  readonly #ignoreCancellations: () => void;
  readonly #ignorePauses: () => void;
  #progress = Promise.withResolvers<void>();

  constructor(options: DispatcherOptions) {
    this.#options = { decide, actions: new Map(), isStored: () => false, ...options };
    this.#queue = options.queue;
    this.#policyOf = retryPolicies(this.#options.actions);
    this.#ignoreCancellations = this.#queue.onCancel((delivery) => options.pool.cancel(delivery));
    this.#ignorePauses = this.#queue.onPauseChange((isPaused) => {
      if (isPaused) options.pool.releaseWaiting();
      else this.#fillSoon();
      this.#advance();
    });
    this.#discardCheck = new DiscardCheck(this.#options.isStored, options.log);
  }

  /** Reason why the queue or a task row could not be written. Undefined after the next successful write. */
  get writeFailure(): string | undefined {
    return this.#backoff.reason;
  }

  start(): void {
    this.#unsubscribe = this.#queue.onReady(this.#fillSoon);
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
    const isDone = () => isOver || this.#queue.paused || (isAbortDue && this.#inFlight > 0);
    while (!isDone() && unsettled(this.#queue) > 0) await this.#progress.promise;
  }

  /** Releases unstarted deliveries at once, and terminates and releases running deliveries when `deadline` resolves. */
  async stop(deadline: Promise<void>): Promise<void> {
    this.#stopped = true;
    this.#unsubscribe();
    this.#backoff.stop();
    await this.#options.pool.stop(deadline);
    this.#ignoreCancellations();
    this.#ignorePauses();
    while (this.#unfinished > 0) await this.#progress.promise;
  }

  #fill(): void {
    while (this.#inFlight < this.#options.prefetch && !this.#taking && !this.#backoff.isActive && !this.#stopped) {
      const taken = this.#queue.take(this.#options.prefetch - this.#inFlight);
      if (taken instanceof Promise) return void this.#receive(taken);
      if (taken.length === 0) {
        // Without a task to run, no later write could reset the backoff, so `writeFailure` would stay set.
        if (this.#inFlight === 0 && !this.#queue.paused) this.#backoff.reset();
        return;
      }
      for (const delivery of taken) void this.#process(delivery);
      this.#advance();
    }
  }

  async #receive(taken: Promise<Delivery[]>): Promise<void> {
    this.#taking = true;
    this.#unfinished += 1;
    try {
      for (const delivery of await taken) {
        // The queue may have been paused while `take` recorded the delivery.
        void (this.#queue.paused ? this.#release(delivery) : this.#process(delivery));
      }
    } catch (error) {
      this.#startBackoff(`the queue cannot write: ${error}`);
    }
    this.#taking = false;
    this.#finish();
    this.#fill();
  }

  async #process(delivery: Delivery): Promise<void> {
    this.#inFlight += 1;
    this.#unfinished += 1;
    const settlement = await this.#settlementOf(delivery);
    this.#note(delivery, settlement);
    const recorded = this.#queue.settle(delivery, settlement);
    this.#inFlight -= 1;
    this.#fillSoon();
    try {
      await recorded;
    } catch (error) {
      this.#options.log.error({ err: error, task: delivery.message.id }, 'settling a task failed');
    }
    this.#finish();
  }

  async #release(delivery: Delivery): Promise<void> {
    this.#unfinished += 1;
    await this.#queue.settle(delivery, { kind: 'release' }).catch(() => {});
    this.#finish();
  }

  async #settlementOf(delivery: Delivery): Promise<Settlement> {
    const policy = this.#policyOf(delivery.message.body);
    const discard = this.#discardCheck.takePostponed(delivery) ?? discardExhausted(delivery, policy);
    if (discard !== undefined) return this.#discardCheck.settle(delivery, discard);
    let startedAt = 0;
    const outcome = await this.#options.pool.run(delivery, () => {
      startedAt = Date.now();
      return this.#queue.markRunning(delivery);
    });
    if (outcome.ended === 'returned') this.#backoff.reset();
    if (outcome.ended === 'unstored') this.#startBackoff(outcome.reason);
    const isAttempt = outcome.ended !== 'unstored' && outcome.ended !== 'interrupted';
    if (isAttempt && startedAt > 0 && delivery.attempt === 1) this.metrics.noteWait(startedAt - delivery.acceptedAt);
    const settlement = this.#options.decide(delivery, outcome, policy);
    if (settlement.kind === 'cancel') return this.#discardCheck.settle(delivery, settlement);
    const mayBeStored = outcome.ended === 'crashed' || delivery.crashes > 0 || delivery.suspect;
    return settlement.kind === 'discard' && mayBeStored ? this.#discardCheck.settle(delivery, settlement) : settlement;
  }

  #startBackoff(reason: string): void {
    const delayMs = this.#backoff.start(reason);
    if (delayMs === undefined) return;
    this.#options.log.error({ reason, delayMs }, 'results cannot be stored: all tasks wait');
    this.#options.pool.releaseWaiting();
    // Unsubscribes, so that a queue shared by several nodes delivers the released messages to other nodes.
    this.#unsubscribe();
  }

  #note({ message, attempt }: Delivery, settlement: Settlement): void {
    this.metrics.note(settlement);
    if (settlement.kind !== 'retry' && settlement.kind !== 'discard') return;
    const { kind: decision, ...rest } = settlement;
    this.#options.log.warn({ task: message.id, attempt, decision, ...rest }, 'task failed');
  }

  #finish(): void {
    this.#unfinished -= 1;
    this.#advance();
  }

  #advance(): void {
    this.#progress.resolve();
    this.#progress = Promise.withResolvers();
  }
}

/** Returns the number of messages that are waiting, delayed or in flight. */
export function unsettled(queue: Pick<Queue, 'counts'>): number {
  const { waiting, delayed, inFlight } = queue.counts();
  return waiting + delayed + inFlight;
}
