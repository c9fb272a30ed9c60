import type { Settlement } from '../../workers/messages.ts';
import type { Awaitable } from '../awaitable.ts';
import type { Log } from '../log.ts';
import { BusyPoll } from './busy-poll.ts';
import { Pause } from './pause.ts';
import type { Consumer, Delivery, QueueDriver, Verdict } from './queue/driver.ts';
import { type Failure, judge, retryPolicy } from './retry-policy.ts';
import { TaskFigures } from './task-figures.ts';
import type { PoolOutcome, PoolRun, WorkerPool } from './worker-pool.ts';

export interface DispatcherOptions {
  queue: QueueDriver;
  pool: Pick<WorkerPool, 'run' | 'threads' | 'maxBatch' | 'destroy'>;
  /** Deliveries that may be out of the queue and not settled. */
  prefetch: number;
  /** What becomes of a failed delivery; see `retry-policy`. */
  judge?: (delivery: Delivery, failure: Failure) => Verdict;
  /** Whether the row of the task with that id is there. May throw. */
  isStored?: (id: string) => Awaitable<boolean>;
  log: Log;
}

/**
 * Moves deliveries from the queue to the pool, in order, and settles each by what the pool says: acknowledged
 * when the handler returned, negatively acknowledged when it raised an error or its thread died.
 */
export class Dispatcher {
  readonly figures = new TaskFigures();
  readonly #queue: QueueDriver;
  readonly #pool: DispatcherOptions['pool'];
  readonly #prefetch: number;
  readonly #judge: (delivery: Delivery, failure: Failure) => Verdict;
  readonly #isStored: (id: string) => Awaitable<boolean>;
  readonly #log: Log;
  /** Taken out of the queue, but the pool is busy: never more than the prefetch. */
  readonly #pending: Delivery[] = [];
  /** Batches that the pool works on. */
  #running = 0;
  /** Whether one of them is not to have company. */
  #isolating = false;
  /** While a batch is settled, and more comes from the queue for each of it, that is gathered. */
  #settling = false;
  /** While it is on nothing is begun. */
  readonly #pause = new Pause(() => this.#fill());
  readonly #poll = new BusyPoll();
  #consumer: Consumer | undefined;
  #progress = Promise.withResolvers<void>();

  constructor({ queue, pool, prefetch, judge: rule = judge, isStored = () => false, log }: DispatcherOptions) {
    this.#queue = queue;
    this.#pool = pool;
    this.#prefetch = prefetch;
    this.#judge = rule;
    this.#isStored = isStored;
    this.#log = log;
  }

  /** Threads of the pool that have something to do. */
  get busy(): number {
    return this.#running;
  }

  /** Why all tasks wait at present, if they do. */
  get paused(): string | undefined {
    return this.#pause.reason;
  }

  start(): void {
    this.#consumer = this.#queue.consume(this.#prefetch, (delivery) => {
      this.#pending.push(delivery);
      this.#fill();
    });
  }

  /** Waits until the queue holds nothing that is waiting, delayed or in flight, or `deadline` is over. */
  async drain(deadline: Promise<void>): Promise<void> {
    await this.#until(() => unsettled(this.#queue) === 0, deadline);
  }

  /**
   * Takes nothing more, gives back what was not begun, and waits for what was, until `deadline` is over:
   * then the pool is taken down and that, too, goes back to the queue.
   */
  async stop(deadline: Promise<void>): Promise<void> {
    this.#consumer?.stop();
    this.#pause.stop();
    for (const delivery of this.#pending.splice(0)) this.#written(delivery, delivery.release());
    await this.#until(() => this.#running === 0, deadline);
    await this.#pool.destroy();
    await this.#until(() => this.#running === 0);
  }

  async #until(reached: () => boolean, deadline?: Promise<void>): Promise<void> {
    let over = false;
    void deadline?.then(() => {
      over = true;
      this.#advance();
    });
    while (!over && !reached()) await this.#progress.promise;
  }

  /** Gives the pool as many batches as it has threads. */
  #fill(): void {
    if (this.#settling) return;
    while (this.#running < this.#pool.threads && !this.#isolating && !this.#pause.on) {
      const [next] = this.#pending;
      if (next === undefined) return;
      if (next.cut) {
        if (this.#running > 0) return;
        this.#isolating = true;
      }
      const batch = this.#pending.splice(0, this.#share());
      this.#running += 1;
      void this.#work(batch);
    }
  }

  /** How many of the pending deliveries a free thread gets: all that it takes, or one that is to be alone. */
  #share(): number {
    const alone = this.#pending.findIndex((delivery) => this.#isAlone(delivery));
    return Math.min(this.#pool.maxBatch, alone < 0 ? this.#pending.length : Math.max(alone, 1));
  }

  /**
   * A task that has killed its thread, or may have, is not given the chance to take others along. (One that may have
   * killed its process runs all alone, or the one beside it would be blamed with it again.)
   */
  #isAlone(delivery: Delivery): boolean {
    return delivery.crashes > 0 || isPoisonous(delivery) || delivery.suspect;
  }

  async #work(batch: Delivery[]): Promise<void> {
    const [first] = batch;
    if (first !== undefined && isPoisonous(first)) this.#written(first, this.#nack(first, poisonous));
    else await this.#attempt(batch);
    this.#running -= 1;
    this.#isolating = false;
    this.#fill();
    this.#advance();
  }

  async #attempt(batch: Delivery[]): Promise<void> {
    const begun = await Promise.allSettled(batch.map((delivery) => delivery.begin()));
    const failure = begun.find((result) => result.status === 'rejected');
    if (failure !== undefined) {
      this.#rest(`the queue cannot write: ${failure.reason}`);
      for (const delivery of batch) delivery.release().catch(() => {});
      return;
    }
    const begunAt = Date.now();
    const early = new Set<Delivery>();
    const tasks = batch.map((delivery) => ({
      body: delivery.message.body,
      arrival: delivery.seq,
      onSettled: (settlement: Settlement) => {
        early.add(delivery);
        this.#written(delivery, settlement === 'ack' ? this.#ack(delivery) : this.#nack(delivery, nackedByHandler));
      },
    }));
    const run = this.#pool.run(tasks);
    const sharing = this.#shareLater(batch, run);
    if (this.#running === 1) this.#poll.begin();
    const outcomes = await run.outcomes;
    this.#poll.end();
    clearInterval(sharing);
    const unstored = outcomes.find((outcome) => outcome.ended === 'unstored');
    if (unstored === undefined) this.#pause.forget();
    else this.#rest(unstored.reason);
    this.#settling = true;
    for (const [index, delivery] of batch.entries()) {
      const outcome = outcomes[index] as PoolOutcome;
      if (isAttempt(outcome)) this.#noteWait(delivery, begunAt);
      if (!early.has(delivery)) this.#written(delivery, this.#settle(delivery, outcome));
    }
    this.#settling = false;
  }

  /** What a long task of the batch holds up goes back to the queue, and from there to a thread that is free. */
  #shareLater(batch: Delivery[], run: PoolRun): NodeJS.Timeout | undefined {
    if (batch.length === 1) return undefined;
    return setInterval(() => {
      if (this.#running === this.#pool.threads || this.#isolating) return;
      for (const delivery of batch.splice(run.recall())) this.#written(delivery, delivery.release());
    }, SHARE_AFTER_MS);
  }

  #noteWait({ attempt, acceptedAt }: Delivery, begunAt: number): void {
    if (attempt === 1) this.figures.waits.observe(Math.max(0, begunAt - acceptedAt) / 1000);
  }

  /** Begins nothing for a while. That nothing can be written is no task's fault, and none loses an attempt by it. */
  #rest(reason: string): void {
    const delayMs = this.#pause.begin(reason);
    if (delayMs !== undefined)
      this.#log.error({ reason, delayMs }, 'what is done cannot be written down: all tasks wait');
  }

  /** What is said of a delivery counts at once; no thread waits until the queue has written it down. */
  #written(delivery: Delivery, written: Promise<void>): void {
    written.catch((error) => this.#logUnwritten(delivery, error));
  }

  #logUnwritten({ message }: Delivery, error: unknown): void {
    this.#log.error({ err: error, task: message.id }, 'settling a task failed');
  }

  /** Wakes whoever waits for something to change. */
  #advance(): void {
    const { resolve } = this.#progress;
    this.#progress = Promise.withResolvers();
    resolve();
  }

  async #settle(delivery: Delivery, outcome: PoolOutcome): Promise<void> {
    if (outcome.ended === 'interrupted') return delivery.release(outcome.suspect);
    if (outcome.ended === 'crashed') return this.#nack(delivery, { failure: 'crash', reason: outcome.reason });
    // The handler's own word goes before how it ended, whichever of the two messages came first.
    if (outcome.settled === 'nack') return this.#nack(delivery, nackedByHandler);
    if (outcome.settled === 'ack' || outcome.ended === 'returned') return this.#ack(delivery);
    if (outcome.ended === 'unstored') return delivery.release(false);
    const { permanent, reason } = outcome;
    return this.#nack(delivery, { failure: permanent ? 'permanent' : 'transient', reason });
  }

  #ack(delivery: Delivery): Promise<void> {
    this.figures.completed += 1;
    return delivery.ack();
  }

  async #nack(delivery: Delivery, failure: Failure): Promise<void> {
    const { message, attempt } = delivery;
    const verdict = failure === poisonous ? buried : this.#judge(delivery, failure);
    if (verdict.verdict === 'dead' && (failure.failure === 'crash' || delivery.crashes > 0)) {
      const end = await this.#endAfterCrash(message.id);
      if (end === 'stored') return this.#ack(delivery);
      if (end === 'unknown') return delivery.nack({ ...lookAgain, reason: verdict.reason });
    }
    this.#count(failure === poisonous ? 'crash' : failure.failure, verdict);
    this.#log.warn({ task: message.id, attempt, ...failure, ...verdict }, 'task failed');
    await delivery.nack(verdict);
  }

  #count(failure: Failure['failure'], { verdict }: Verdict): void {
    if (verdict === 'retry') this.figures.retried.count(failure === 'crash' ? 'crash' : 'error');
    else this.figures.dead.count(failure === 'crash' ? 'crashes' : failure === 'permanent' ? 'permanent' : 'attempts');
  }

  /** A thread may have died after it had stored the row: that task is done, and no dead letter. */
  async #endAfterCrash(id: string): Promise<'stored' | 'not stored' | 'unknown'> {
    try {
      return (await this.#isStored(id)) ? 'stored' : 'not stored';
    } catch (error) {
      this.#log.error({ err: error, task: id }, 'it is not known whether a task that crashed has its row');
      return 'unknown';
    }
  }
}

/** Whether the task has been tried; else it waits on, and is tried again. */
function isAttempt({ ended }: PoolOutcome): boolean {
  return ended !== 'unstored' && ended !== 'interrupted';
}

/** How long a thread may have several deliveries while another has none: far longer than a batch of short tasks takes. */
const SHARE_AFTER_MS = 5;

/** What a durable queue finds out about a task when it is opened again. */
function isPoisonous({ crashes, attempt }: Delivery): boolean {
  return crashes >= retryPolicy.maxCrashes || attempt > retryPolicy.maxAttempts;
}

const poisonous: Failure = { failure: 'permanent', reason: 'the process died while it was worked on, again and again' };

const buried: Verdict = { verdict: 'dead', reason: poisonous.reason, tried: false };

/** It counts as a crash, so that the task is not run again but only looked for. */
const lookAgain = { verdict: 'retry', delayMs: 1000, crashed: true, tried: false } as const;

const nackedByHandler: Failure = { failure: 'transient', reason: 'negatively acknowledged by its handler' };

/** How many messages `queue` has not come to an end with. */
export function unsettled(queue: QueueDriver): number {
  const { waiting, delayed, inFlight } = queue.counts();
  return waiting + delayed + inFlight;
}
