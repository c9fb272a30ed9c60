import type { Clock } from '../../workers/shared/clock.ts';
import { sleepOn } from '../support/manual-clock.ts';

/** Time at which each simulation starts, in milliseconds since the epoch. */
const START = 1_800_000_000_000;

/** Waits before which callbacks run, and their number of turns. */
const [LONG_MS, TURNS] = [1000, 6];

interface Timer {
  at: number;
  run: (() => void) | undefined;
}

/** Resolves at the end of the event loop turn, after all callbacks that are scheduled for it. */
export function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** Time of all processes. */
export interface Time {
  /** Milliseconds since the epoch. */
  readonly now: number;
  timer(delayMs: number, run: () => void): () => void;
  /** Lets `ms` milliseconds pass. @param isOver whether to return before the time has passed, asked after each timer */
  pass(ms: number, isOver?: () => boolean): Promise<void>;
}

/** Simulated time of all processes. Each timer runs in a turn of its own. */
export class SimulatedTime implements Time {
  now = START;
  /** The next one is the last. */
  readonly #timers: Timer[] = [];

  timer(delayMs: number, run: () => void): () => void {
    const timer: Timer = { at: this.now + Math.max(0, Math.ceil(delayMs)), run };
    // After the timers that are due at the same time.
    this.#timers.splice(this.#timers.findLastIndex(({ at }) => at > timer.at) + 1, 0, timer);
    return () => {
      timer.run = undefined;
    };
  }

  async pass(ms: number, isOver: () => boolean = () => false): Promise<void> {
    const end = this.now + ms;
    for (let at = await this.#nextAfterTurns(end); at <= end; at = await this.#nextAfterTurns(end)) {
      // A pass that began meanwhile may have gone further. Time never goes back.
      this.now = Math.max(this.now, at);
      this.#timers.pop()?.run?.();
      await turn();
      if (isOver()) return;
    }
    this.now = Math.max(this.now, end);
    await turn();
  }

  /** Returns when the next timer is due, or infinity. Before a long wait, the callbacks of this time may set timers. */
  async #nextAfterTurns(end: number): Promise<number> {
    const isLong = () => Math.min(this.#next(), end) - this.now >= LONG_MS;
    for (let turns = 0; turns < TURNS && isLong(); turns += 1) await turn();
    return this.#next();
  }

  #next(): number {
    while (this.#timers.length > 0 && this.#timers.at(-1)?.run === undefined) this.#timers.pop();
    return this.#timers.at(-1)?.at ?? Number.POSITIVE_INFINITY;
  }
}

/** Clock of one process. After the death of the process, no timer fires. */
export class ProcessClock implements Clock {
  readonly #time: Time;
  #isDead = false;
  /** Timers that were due while the process stood still. Undefined while the process runs. */
  #delayed: (() => void)[] | undefined;

  constructor(time: Time) {
    this.#time = time;
  }

  now(): number {
    return this.#time.now;
  }

  timer(delayMs: number, run: () => void): () => void {
    let isCancelled = false;
    const fire = () => {
      if (this.#isDead || isCancelled) return;
      if (this.#delayed === undefined) run();
      else this.#delayed.push(fire);
    };
    const cancel = this.#time.timer(delayMs, fire);
    return () => {
      isCancelled = true;
      cancel();
    };
  }

  sleep(delayMs: number, signal?: AbortSignal): Promise<void> {
    return sleepOn(this, delayMs, signal);
  }

  /** Ends the process. */
  kill(): void {
    this.#isDead = true;
  }

  /** Stops the process as SIGSTOP does. Time goes on. */
  standStill(): void {
    this.#delayed ??= [];
  }

  /** Continues the process, whose overdue timers fire in their order. */
  async goOn(): Promise<void> {
    const delayed = this.#delayed ?? [];
    this.#delayed = undefined;
    for (const fire of delayed) {
      fire();
      await turn();
    }
  }
}
