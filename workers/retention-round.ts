import { MAX_STEP_BYTES, MAX_STEP_ROWS, type RetentionLimits, SECONDS_PER_DAY } from '../db/retention-limits.ts';
import type { AgedRow, TaskRetention } from '../db/sqlite/retention.ts';

/**
 * Deletes all task rows beyond the limits, in steps of one short transaction. Yields the number of rows deleted by each step.
 *
 * @param now milliseconds since the epoch
 * @param write calls `work`, the transaction of a step, for example while it holds a lock
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
  // The rows are counted only once, because no other thread deletes rows.
  for (let excess = retention.count() - rows; excess > 0; ) {
    const step = withinBytes(retention.oldest(Math.min(excess, MAX_STEP_ROWS)));
    if (step.length === 0) return;
    write(() => retention.delete(step));
    excess -= step.length;
    yield step.length;
  }
}

/** Deletes the rows of tasks completed before `time` (Unix seconds). A task submitted before `time` but completed later is kept. */
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

/** Returns as many of the first rows as have {@link MAX_STEP_BYTES} bytes or less in total, but always the first row. */
function withinBytes(rows: readonly AgedRow[]): AgedRow[] {
  let bytes = 0;
  return rows.filter((row, index) => {
    bytes += row.bytes;
    return index === 0 || bytes <= MAX_STEP_BYTES;
  });
}
