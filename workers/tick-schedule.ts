/**
 * Returns when the tick after the one at `due` is due, in milliseconds since the epoch. Ticks are due at multiples of
 * the interval. After missed ticks or a changed clock, returns the next multiple after `now`.
 */
export function nextTick(due: number, now: number, intervalMs: number): number {
  const following = due + intervalMs;
  const onSchedule = now >= due && now < following;
  return onSchedule ? following : (Math.floor(now / intervalMs) + 1) * intervalMs;
}

/** Calls `tick` with each due time, never early. The returned function stops the schedule. */
export function startSchedule(intervalMs: number, tick: (due: number) => void): () => void {
  let due = nextTick(Number.NEGATIVE_INFINITY, Date.now(), intervalMs);
  const wake = () => {
    // A timer may fire early, because timers use the monotonic clock, but `due` is a time of the system clock.
    const isDue = Date.now() >= due;
    if (isDue) tick(due);
    if (isDue || due - Date.now() > intervalMs) due = nextTick(due, Date.now(), intervalMs);
    timer = setTimeout(wake, due - Date.now());
  };
  let timer = setTimeout(wake, due - Date.now());
  return () => clearTimeout(timer);
}
