/**
 * Returns the due time of the tick after `due`, in milliseconds since the epoch. Ticks are due at whole multiples of the interval, so
 * they do not drift. Missed ticks are skipped. If the clock was set, the next multiple after `now` is due.
 */
export function nextTick(due: number, now: number, intervalMs: number): number {
  const following = due + intervalMs;
  const onSchedule = now >= due && now < following;
  return onSchedule ? following : (Math.floor(now / intervalMs) + 1) * intervalMs;
}

/** Calls `tick` with every due time, never early, until the returned function is called. */
export function startSchedule(intervalMs: number, tick: (due: number) => void): () => void {
  let due = nextTick(Number.NEGATIVE_INFINITY, Date.now(), intervalMs);
  const wake = () => {
    // Timers use the monotonic clock, so this one may fire before `due` on the system clock.
    if (Date.now() >= due) {
      tick(due);
      due = nextTick(due, Date.now(), intervalMs);
    } else if (due - Date.now() > intervalMs) {
      due = nextTick(due, Date.now(), intervalMs);
    }
    timer = setTimeout(wake, due - Date.now());
  };
  let timer = setTimeout(wake, due - Date.now());
  return () => clearTimeout(timer);
}
