import { setImmediate } from 'node:timers/promises';
import type { BulkResult, TaskSubject } from './task-store.ts';

/** Largest slice of dead letters that a redrive or purge changes in one transaction. */
export const BULK_SLICE = { maxLength: 1000, maxBytes: 1024 * 1024 };

/** Dead letters of a slice that were changed, and positions of those that had no room. */
export interface ChangedSlice {
  done: readonly TaskSubject[];
  kept: readonly number[];
}

/**
 * Changes dead letters, one slice a turn, until a slice changes none although some exist, because the queue is full. The
 * selection is fixed, so that a task that fails again meanwhile is not selected again. The slices before an error count as
 * done.
 *
 * @param selected positions of the dead letters
 * @param change changes in one transaction the first dead letters that have room
 */
export async function changeInSlices(
  selected: readonly number[],
  change: (arrivals: readonly number[]) => Promise<ChangedSlice>,
  onChanged: (tasks: readonly TaskSubject[]) => void = () => {},
): Promise<BulkResult> {
  const done: TaskSubject[] = [];
  let rest = selected;
  try {
    for (let isFull = false; rest.length > 0 && !isFull; await setImmediate()) {
      const slice = await change(rest.slice(0, BULK_SLICE.maxLength));
      done.push(...slice.done);
      onChanged(slice.done);
      rest = [...slice.kept, ...rest.slice(BULK_SLICE.maxLength)];
      isFull = slice.done.length === 0 && slice.kept.length > 0;
    }
  } catch (error) {
    if (done.length === 0) throw error;
  }
  return { done, remaining: rest.length };
}
