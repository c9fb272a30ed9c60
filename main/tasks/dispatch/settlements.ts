import { setImmediate as nextTurn } from 'node:timers/promises';
import { type Effect, type Settled, type SettleResult, ValueRefused } from '../../../db/task-store.ts';
import { type Clock, oncePerTurn } from '../../../workers/shared/clock.ts';
import type { Log } from '../../log/log.ts';
import type { Queue } from '../queue.ts';

/** A settlement that is not committed. `onEffect` is called when it is. */
export interface Pending extends Settled {
  onEffect?: (effect: Effect) => void;
}

interface SettlementsOptions {
  queue: Pick<Queue, 'settle'>;
  onWritten: (settled: readonly Settled[], result: SettleResult) => void;
  clock: Clock;
  log: Log;
}

/** A settlement frees its place in the window at once, and is written with others after this time at the latest. */
const DELAY_MS = 5;
const MAX_COUNT = 64;
/** Size of the results that one transaction writes. A larger result is written alone. */
const MAX_BYTES = 256 * 1024;
const SHORTEST_BACKOFF_MS = 100;
const LONGEST_BACKOFF_MS = 5000;

/** Collects settlements and writes them together, because a commit costs more than a row. */
export class Settlements {
  /** Reason why settlements cannot be written. Undefined after the next successful write. */
  failure: string | undefined;
  readonly #options: SettlementsOptions;
  /** Settlements that are not committed. The first `#writing` of them are being written. */
  #pending: Pending[] = [];
  #bytes = 0;
  #writing = 0;
  /** Resolves when the present write has ended. Undefined if there is none. */
  #written: Promise<void> | undefined;
  #failures = 0;
  #cancelTimer: (() => void) | undefined;
  /** Each turn writes a bounded number of bytes. */
  readonly #flushSoon = oncePerTurn(() => this.flush());

  constructor(options: SettlementsOptions) {
    this.#options = options;
  }

  /** Whether nothing may be taken until more is written. */
  get isFull(): boolean {
    return this.failure !== undefined || this.#bytes > MAX_BYTES || this.#pending.length - this.#writing > MAX_COUNT;
  }

  get isEmpty(): boolean {
    return this.#pending.length === 0;
  }

  add(settled: Pending): void {
    this.#pending.push(settled);
    this.#bytes += bytesOf(settled);
    if (this.failure === undefined) this.#schedule();
  }

  /** Writes the pending settlements, unless writes fail and are repeated later. */
  flush(): void {
    if (this.failure !== undefined) return;
    this.#stopTimer();
    this.#write();
  }

  /** Writes everything that is pending. Returns false if it cannot be written. */
  async finish(): Promise<boolean> {
    await this.#written;
    this.failure = undefined;
    while (this.#pending.length > 0 && this.failure === undefined) {
      this.#write();
      await this.#written;
      // A row that follows a written ack is added meanwhile.
      await nextTurn();
    }
    this.#stopTimer();
    return this.#pending.length === 0;
  }

  #schedule(): void {
    if (this.#bytes > MAX_BYTES || this.#pending.length >= MAX_COUNT) this.#flushSoon();
    else this.#cancelTimer ??= this.#options.clock.timer(DELAY_MS, () => this.flush());
  }

  #write(): void {
    if (this.#written !== undefined || this.#pending.length === 0) return;
    const batch = this.#nextBatch();
    this.#writing = batch.length;
    this.#written = this.#settle(batch)
      .catch((error: Error) => this.#fail(error))
      .then(() => {
        this.#writing = 0;
        this.#written = undefined;
        if (this.#pending.length > 0 && this.failure === undefined) this.#schedule();
      });
  }

  /** If the database refuses a value, writes the batch one by one, and dead-letters the one task whose value it is. */
  async #settle(batch: readonly Pending[]): Promise<void> {
    try {
      this.#end(batch, await this.#options.queue.settle(batch));
    } catch (error) {
      if (!(error instanceof ValueRefused)) throw error;
      if (batch.length === 1) this.#discard(batch as [Pending], error.message);
      else for (const each of batch) await this.#settle([each]);
    }
  }

  /** Returns the first settlements, up to the limits of a transaction, but at least one. */
  #nextBatch(): Pending[] {
    let bytes = 0;
    const end = this.#pending.findIndex((settled, index) => {
      bytes += bytesOf(settled);
      return index > 0 && bytes > MAX_BYTES;
    });
    return end < 0 ? this.#pending.slice() : this.#pending.slice(0, end);
  }

  #end(batch: readonly Pending[], result: SettleResult): void {
    this.#remove(batch);
    this.failure = undefined;
    this.#failures = 0;
    for (const [index, { onEffect }] of batch.entries()) onEffect?.(result.effects[index] as Effect);
    this.#options.onWritten(batch, result);
  }

  #fail({ message: reason }: Error): void {
    const delayMs = Math.min(LONGEST_BACKOFF_MS, SHORTEST_BACKOFF_MS * 2 ** this.#failures++);
    this.failure = reason;
    this.#options.log.error({ reason, delayMs }, 'results cannot be stored: all tasks wait');
    this.#stopTimer();
    this.#cancelTimer = this.#options.clock.timer(delayMs, () => {
      this.#cancelTimer = undefined;
      this.#write();
    });
  }

  #discard(batch: [Pending], reason: string): void {
    const [{ settlement: refused, ...others }] = batch;
    this.#remove(batch);
    const text = `its result cannot be stored: ${reason}`;
    this.#options.log.error(
      { task: others.delivery.id, action: others.delivery.action, reason },
      'the database refuses a result',
    );
    const settlement = { kind: 'discard', reason: text, failure: 'permanent' } as const;
    if (refused.kind !== 'row') this.#pending.push({ ...others, settlement });
    // The message of a row is gone already, so nothing is written in its place. A suspect may have waited for it.
    else this.#options.onWritten([], { effects: [], evicted: [] });
  }

  #remove(batch: readonly Pending[]): void {
    this.#writing -= batch.length;
    this.#pending = this.#pending.slice(batch.length);
    for (const settled of batch) this.#bytes -= bytesOf(settled);
  }

  #stopTimer(): void {
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
  }
}

function bytesOf({ settlement }: Settled): number {
  return 'result' in settlement ? settlement.result.length : 0;
}
