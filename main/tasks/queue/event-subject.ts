import type { EventSubject } from './queue.ts';

/** Returns the fields that all events of a task have in common, with the current time. */
export function subjectOf({ id, action }: { id: string; action: string | undefined }): EventSubject {
  return { id, action, at: Date.now() };
}
