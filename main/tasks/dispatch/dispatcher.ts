import type { Awaitable } from '../../awaitable.ts';
import type { Log } from '../../log.ts';
import { oncePerTurn } from '../once-per-turn.ts';
import type { Outcome, WorkerPool } from '../pool/worker-pool.ts';
import type { Delivery, Queue, Settlement } from '../queue/queue.ts';
import { DiscardCheck } from './discard-check.ts';
import { DispatchMetrics } from './dispatch-metrics.ts';
import { Pause } from './pause.ts';
import { decide, discardExhausted } from './retry-policy.ts';

export interface DispatcherOptions {
  queue: Queue;
  pool: Pick<WorkerPool, 'run' | 'releaseWaiting' | 'stop'>;
  /** Maximum number of deliveries that are taken from the queue and not settled. */
  prefetch: number;
  /** Returns how a delivery is settled after its run. The default is `decide` of `retry-policy`. */
  decide?: (delivery: Delivery, outcome: Outcome) => Settlement;
  /** Returns whether the task with that id has a stored row. May throw. The default returns false. */
  isStored?: (id: string) => Awaitable<boolean>;
  log: Log;
}

/** Takes deliveries from the queue, runs each in the pool, and settles it by the outcome of the run. */
export class Dispatcher {
  readonly metrics = new DispatchMetrics();
  readonly #options: Required<DispatcherOptions>;
  readonly #queue: Queue;
  /** Pause during which no deliveries are taken, because a row could not be stored or the queue could not record a delivery. */
  readonly #pause = new Pause(() => this.start());
  /** Schedules `#fill` after the pending promise callbacks, so that one `take` replaces all deliveries that settle together. */
  readonly #fillSoon = oncePerTurn(() => this.#fill());
  readonly #discardCheck: DiscardCheck;
  /** Number of deliveries that were taken from the queue and not settled yet. */
  #inFlight = 0;
  #taking = false;
  /** Number of pending operations: deliveries whose settlement is not recorded yet, and the `take` in progress. */
  #unfinished = 0;
  #stopped = false;
  #unsubscribe = () => {};
  /** Resolves when the next of the `#unfinished` operations ends, so that `drain` and `stop` can wait for it. */
  #progress = Promise.withResolvers<void>();

  constructor(options: DispatcherOptions) {
    this.#options = { decide, isStored: () => false, ...options };
    this.#queue = options.queue;
    this.#discardCheck = new DiscardCheck(this.#options.isStored, options.log);
  }

  /** Reason of the last pause; undefined once a row has been stored again. */
  get paused(): string | undefined {
    return this.#pause.reason;
  }

  start(): void {
    this.#unsubscribe = this.#queue.onReady(this.#fillSoon);
    this.#fill();
  }

  /** Waits until all messages of the queue are settled, but not longer than until `deadline` resolves. */
  async drain(deadline: Promise<void>): Promise<void> {
    let isOver = false;
    void deadline.then(() => {
      isOver = true;
      this.#advance();
    });
    while (!isOver && unsettled(this.#queue) > 0) await this.#progress.promise;
  }

  /**
   * Stops taking deliveries, and returns deliveries that have not started to the queue. Started deliveries may finish until
   * `deadline` resolves. Then their threads are terminated, and the unfinished deliveries are returned to the queue as well.
   */
  async stop(deadline: Promise<void>): Promise<void> {
    this.#stopped = true;
    this.#unsubscribe();
    this.#pause.stop();
    await this.#options.pool.stop(deadline);
    while (this.#unfinished > 0) await this.#progress.promise;
  }

  /** Takes deliveries from the queue until `prefetch` of them are in flight or no message is ready. */
  #fill(): void {
    while (this.#inFlight < this.#options.prefetch && !this.#taking && !this.#pause.on && !this.#stopped) {
      const taken = this.#queue.take(this.#options.prefetch - this.#inFlight);
      if (taken instanceof Promise) return void this.#receive(taken);
      if (taken.length === 0) {
        // Resets the pause if no task is left, because there is no write whose success could reset it.
        if (this.#inFlight === 0) this.#pause.reset();
        return;
      }
      for (const delivery of taken) void this.#process(delivery);
    }
  }

  async #receive(taken: Promise<Delivery[]>): Promise<void> {
    this.#taking = true;
    this.#unfinished += 1;
    try {
      for (const delivery of await taken) void this.#process(delivery);
    } catch (error) {
      this.#startPause(`the queue cannot write: ${error}`);
    }
    this.#taking = false;
    this.#finish();
    this.#fill();
  }

  /** Runs and settles a delivery. The next delivery is taken after the call of `settle`, before the settlement is recorded. */
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

  async #settlementOf(delivery: Delivery): Promise<Settlement> {
    const discard = this.#discardCheck.waitingFor(delivery) ?? discardExhausted(delivery);
    if (discard !== undefined) return this.#discardCheck.settle(delivery, discard);
    let startedAt = 0;
    const outcome = await this.#options.pool.run(delivery, () => {
      startedAt = Date.now();
      return this.#queue.markRunning(delivery);
    });
    if (outcome.ended === 'returned') this.#pause.reset();
    if (outcome.ended === 'unstored') this.#startPause(outcome.reason);
    const isAttempt = outcome.ended !== 'unstored' && outcome.ended !== 'interrupted';
    if (isAttempt && delivery.attempt === 1) this.metrics.noteWait(startedAt - delivery.acceptedAt);
    const settlement = this.#options.decide(delivery, outcome);
    const mayBeStored = outcome.ended === 'crashed' || delivery.crashes > 0 || delivery.suspect;
    return settlement.kind === 'discard' && mayBeStored ? this.#discardCheck.settle(delivery, settlement) : settlement;
  }

  /** Stops taking deliveries until the pause ends, and returns deliveries that have not started to the queue. */
  #startPause(reason: string): void {
    const delayMs = this.#pause.start(reason);
    if (delayMs === undefined) return;
    this.#options.log.error({ reason, delayMs }, 'results cannot be stored: all tasks wait');
    this.#options.pool.releaseWaiting();
    // Unsubscribes, so that a queue shared by several nodes gives the returned deliveries to other nodes.
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

/** Number of messages that are waiting, delayed or in flight. */
export function unsettled(queue: Pick<Queue, 'counts'>): number {
  const { waiting, delayed, inFlight } = queue.counts();
  return waiting + delayed + inFlight;
}
