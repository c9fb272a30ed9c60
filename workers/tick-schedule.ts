/**
 * When the tick after `due` is due, all in milliseconds since the epoch. Ticks lie on whole multiples of
 * the interval, so that none drifts; ticks that were slept through are left out, and a clock that was set
 * back or forward starts the schedule anew instead of a burst or a silence.
 */
export function nextTick(due: number, now: number, intervalMs: number): number {
  const following = due + intervalMs;
  const onSchedule = now >= due && now < following;
  return onSchedule ? following : (Math.floor(now / intervalMs) + 1) * intervalMs;
}

/** Calls `tick` at every due time with that time, never before it, until the returned function is called. */
export function startSchedule(intervalMs: number, tick: (due: number) => void): () => void {
  let due = nextTick(Number.NEGATIVE_INFINITY, Date.now(), intervalMs);
  const wake = () => {
    // A timer runs on a clock of its own and may be a little early for this one.
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
