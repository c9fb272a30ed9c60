import type { Clock } from '../shared/clock.ts';

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
