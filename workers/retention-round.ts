import { type RetentionLimits, SECONDS_A_DAY, STEP_BYTES, STEP_ROWS } from '../db/retention-limits.ts';
import type { AgedRow, TaskRetention } from '../db/task-retention.ts';

/**
 * Deletes all rows that are beyond the limits now. It goes on only as it is asked to, a step at a time: each is one short
 * transaction, run by `write`.
 *
 * @param now milliseconds since the epoch
 * @returns the rows that each step has deleted
 */
export function* retentionRound(
  retention: TaskRetention,
  { rows, days }: RetentionLimits,
  now: number,
  write: (work: () => void) => void,
): Generator<number, void, void> {
  if (rows > 0) yield* deleteExcess(retention, rows, write);
  if (days > 0) yield* deleteAged(retention, Math.floor(now / 1000) - days * SECONDS_A_DAY, write);
}

function* deleteExcess(retention: TaskRetention, rows: number, write: (work: () => void) => void) {
  // Nobody else deletes, so what is too much now is too much later, too.
  for (let excess = retention.count() - rows; excess > 0; ) {
    const step = withinBytes(retention.oldest(Math.min(excess, STEP_ROWS)));
    if (step.length === 0) return;
    write(() => retention.delete(step));
    excess -= step.length;
    yield step.length;
  }
}

/** A task that waited for long was done long after its submission: its row is passed by. */
function* deleteAged(retention: TaskRetention, time: number, write: (work: () => void) => void) {
  let place = { created_at: Number.MIN_SAFE_INTEGER, rowid: Number.MIN_SAFE_INTEGER };
  for (;;) {
    const step = withinBytes(retention.submittedBefore(time, place, STEP_ROWS));
    const last = step.at(-1);
    if (last === undefined) return;
    place = last;
    const aged = step.filter(({ ended_at }) => ended_at < time);
    if (aged.length > 0) write(() => retention.delete(aged));
    yield aged.length;
  }
}

/** The first rows that have {@link STEP_BYTES} at most in all, but one at least. */
function withinBytes(rows: readonly AgedRow[]): AgedRow[] {
  let bytes = 0;
  return rows.filter((row, index) => {
    bytes += row.bytes;
    return index === 0 || bytes <= STEP_BYTES;
  });
}
