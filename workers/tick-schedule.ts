/**
 * Returns the due time of the tick after the one due at `due`. Times are milliseconds since the epoch. Ticks are due at whole multiples
 * of the interval, so they do not drift. If ticks were missed or the clock was changed, returns the next multiple after `now`.
 */
export function nextTick(due: number, now: number, intervalMs: number): number {
  const following = due + intervalMs;
  const onSchedule = now >= due && now < following;
  return onSchedule ? following : (Math.floor(now / intervalMs) + 1) * intervalMs;
}

/** Calls `tick` at each due time, never earlier, with that time as its argument, until the returned function is called. */
export function startSchedule(intervalMs: number, tick: (due: number) => void): () => void {
  let due = nextTick(Number.NEGATIVE_INFINITY, Date.now(), intervalMs);
  const wake = () => {
    // The timer may fire before `due`, because timers use the monotonic clock and `due` is on the system clock.
    const isDue = Date.now() >= due;
    if (isDue) tick(due);
    if (isDue || due - Date.now() > intervalMs) due = nextTick(due, Date.now(), intervalMs);
    timer = setTimeout(wake, due - Date.now());
  };
  let timer = setTimeout(wake, due - Date.now());
  return () => clearTimeout(timer);
}
