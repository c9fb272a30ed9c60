import { MAX_STEP_BYTES, MAX_STEP_ROWS, type RetentionLimits, SECONDS_PER_DAY } from '../db/retention-limits.ts';
import type { AgedRow, TaskRetention } from '../db/sqlite/retention.ts';

/**
 * Deletes all rows beyond the limits, and yields the number of rows that each step, a short transaction, deleted.
 *
 * @param now milliseconds since the epoch
 * @param write runs the transaction of a step
 */
export function* retentionRound(
  retention: TaskRetention,
  { rows, days }: RetentionLimits,
  now: number,
  write: (work: () => void) => void,
): Generator<number, void, void> {
  if (rows > 0) yield* deleteExcess(retention, rows, write);
  if (days > 0) yield* deleteAged(retention, Math.floor(now / 1000) - days * SECONDS_PER_DAY, write);
}

function* deleteExcess(retention: TaskRetention, rows: number, write: (work: () => void) => void) {
  // No other thread deletes rows, so one count at the beginning is enough.
  for (let excess = retention.count() - rows; excess > 0; ) {
    const step = withinBytes(retention.oldest(Math.min(excess, MAX_STEP_ROWS)));
    if (step.length === 0) return;
    write(() => retention.delete(step));
    excess -= step.length;
    yield step.length;
  }
}

/** Deletes rows of tasks completed before `time`. A task submitted before `time` but completed later is skipped. */
function* deleteAged(retention: TaskRetention, time: number, write: (work: () => void) => void) {
  let previous = { created_at: Number.MIN_SAFE_INTEGER, rowid: Number.MIN_SAFE_INTEGER };
  for (;;) {
    const step = withinBytes(retention.submittedBefore(time, previous, MAX_STEP_ROWS));
    const last = step.at(-1);
    if (last === undefined) return;
    previous = last;
    const aged = step.filter(({ ended_at }) => ended_at < time);
    if (aged.length > 0) write(() => retention.delete(aged));
    yield aged.length;
  }
}

/** Returns the first rows, up to a total of {@link MAX_STEP_BYTES}, but at least one. */
function withinBytes(rows: readonly AgedRow[]): AgedRow[] {
  let bytes = 0;
  return rows.filter((row, index) => {
    bytes += row.bytes;
    return index === 0 || bytes <= MAX_STEP_BYTES;
  });
}
