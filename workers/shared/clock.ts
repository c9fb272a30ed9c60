import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';

/** Source of time. Passed in, so that specs and simulations control it. */
export interface Clock {
  /** Whole milliseconds since the epoch. Never goes back, even if the system's clock is set back. */
  now(): number;
  /** Milliseconds of monotonic time. For durations, because `now` jumps if the system's clock is set forward. */
  elapsed(): number;
  /** Calls `run` once after `delayMs` milliseconds. The returned function prevents the call. */
  timer(delayMs: number, run: () => void): () => void;
  /** Resolves after `delayMs` milliseconds, or earlier if `signal` is aborted. Never rejects. */
  sleep(delayMs: number, signal?: AbortSignal): Promise<void>;
}

/** Source of chance. Passed in, so that specs and simulations control it. */
export interface Random {
  /** Returns a number from 0 up to, but not including, 1. */
  number(): number;
  uuid(): string;
}

/** Longest delay of a Node timer. A longer one would fire at once. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/** Difference of the wall clock and the monotonic clock. */
let offset = performance.timeOrigin;

/** The wall clock, except that monotonic time goes on if it is set back. Otherwise, retries would wait for hours. */
export const systemClock: Clock = {
  now() {
    // The wall clock first: if the thread stands still between the two, the difference is too small, and is ignored.
    const wall = Date.now();
    const elapsed = performance.now();
    offset = Math.max(offset, wall - elapsed);
    return Math.floor(offset + elapsed);
  },
  elapsed: () => performance.now(),
  timer(delayMs, run) {
    const timer = setTimeout(run, timerDelay(delayMs));
    return () => clearTimeout(timer);
  },
  sleep: (delayMs, signal) => sleep(timerDelay(delayMs), undefined, { signal }).catch(() => {}),
};

/** Lets the clock of a new thread continue from that of another one, which may be ahead. */
export function continueFrom(now: number): void {
  offset = Math.max(offset, now - performance.now());
}

const timerDelay = (delayMs: number) => Math.min(Math.max(0, delayMs), MAX_TIMER_MS);

export const systemRandom: Random = { number: Math.random, uuid: randomUUID };

/**
 * Returns an alarm that calls `run` at the earliest of the times, of `now` or `elapsed`, for which it was `set` since the
 * last call. `run` may be called early, so it must check the time. After a `stop`, it is never called again.
 */
export function alarm(clock: Clock, run: () => void, time: 'now' | 'elapsed' = 'now') {
  let dueAt = Number.POSITIVE_INFINITY;
  let cancelTimer = () => {};
  return {
    set(newDueAt: number): void {
      // Also ignores NaN.
      if (!(newDueAt < dueAt)) return;
      cancelTimer();
      dueAt = newDueAt;
      cancelTimer = clock.timer(dueAt - clock[time](), () => {
        dueAt = Number.POSITIVE_INFINITY;
        run();
      });
    },
    stop(): void {
      cancelTimer();
      dueAt = Number.NEGATIVE_INFINITY;
    },
  };
}

/** Wraps `run` so that all calls in one event loop turn lead to a single run, at its end. */
export function oncePerTurn(run: () => void): () => void {
  let isScheduled = false;
  return () => {
    if (isScheduled) return;
    isScheduled = true;
    setImmediate(() => {
      isScheduled = false;
      run();
    });
  };
}

/** Returns the first multiple of the interval after `now`, at which the next tick is due. Missed ticks are skipped. */
export function nextTick(now: number, intervalMs: number): number {
  return (Math.floor(now / intervalMs) + 1) * intervalMs;
}

/**
 * Calls `tick` with each due time in milliseconds since the epoch, never early. The next tick is due after the end of the
 * last one, so that two never fall into one interval.
 */
export function startSchedule(clock: Clock, intervalMs: number, tick: (due: number) => Promise<void>): void {
  let due = nextTick(clock.now(), intervalMs);
  const wake = async () => {
    // A timer may fire early, because `now` is in whole milliseconds.
    if (clock.now() >= due) {
      await tick(due);
      due = nextTick(clock.now(), intervalMs);
    }
    clock.timer(due - clock.now(), wake);
  };
  void wake();
}
