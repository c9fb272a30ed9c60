import type { TaskEvent } from '../../main/tasks/queue/queue.ts';

/** Returns events without the fields that all of them have: the action, and the time, which differs from run to run. */
export function timeless(events: readonly (TaskEvent | undefined)[]): object[] {
  return events.map((event) => {
    const { action, at, ...rest } = event as TaskEvent;
    return rest;
  });
}
