import type { EventSubject } from './queue.ts';

/** Returns the fields that an event has for every task, with the current time. */
export function subjectOf({ id, action }: { id: string; action: string | undefined }): EventSubject {
  return { id, action, at: Date.now() };
}
