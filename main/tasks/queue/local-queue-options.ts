import type { QueueSnapshot } from '../../../db/sqlite/queued-messages.ts';
import type { DeadLetterStore } from './dead-letter-store.ts';
import type { TaskEvent } from './queue.ts';
import type { Journal } from './sqlite-journal.ts';

export interface LocalQueueOptions {
  deadLetters?: DeadLetterStore;
  /** Stores every change of the queue in a file. If absent, the queue is in memory only. */
  journal?: Journal;
  /** Initial contents, saved by the previous process. */
  snapshot?: QueueSnapshot;
  /** Deletes the stored `snapshot`. Called just before the first delivery, so that a failed start loses nothing. */
  clearSnapshot?: () => void;
  onEvent?: (event: TaskEvent) => void;
}
