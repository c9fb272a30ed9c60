import type { Acknowledgement } from '../../../workers/messages.ts';
import type { Delivery } from '../queue/queue.ts';

export type Outcome =
  /** The task's row is stored, or its handler has acked the delivery. */
  | { ended: 'returned' }
  | { ended: 'raised'; reason: string; permanent: boolean; retryAfterMs?: number }
  /** The task's row or the start of its attempt could not be stored. */
  | { ended: 'unstored'; reason: string }
  /** The task killed its thread or exceeded its time limit. */
  | { ended: 'crashed'; reason: string }
  /** The attempt was not started, or was ended for a reason unrelated to the task. */
  | { ended: 'interrupted'; reason: string }
  | { ended: 'cancelled' };

/** A delivery that is waiting for a worker thread or running in one. */
export interface PoolTask {
  delivery: Delivery;
  onStart: () => Promise<void>;
  resolve: (outcome: Outcome) => void;
  isStarted: boolean;
  isCancelled: boolean;
  hasEnded: boolean;
  /** Whether the task may have caused the death of a thread. */
  isSuspect: boolean;
}

/** Whether a delivery must run alone in its batch, because its task may have killed a thread or process. */
export function runsAlone({ delivery, isSuspect }: PoolTask): boolean {
  return isSuspect || delivery.suspect || delivery.crashes > 0;
}

export function outcomeOf(acknowledgement: Acknowledgement): Outcome {
  if (acknowledgement === 'ack') return { ended: 'returned' };
  return { ended: 'raised', reason: 'negatively acknowledged by its handler', permanent: false };
}

export function markStarted(task: PoolTask): Promise<void> | undefined {
  if (task.isStarted || task.hasEnded) return undefined;
  task.isStarted = true;
  return task.onStart();
}

export function end(task: PoolTask, outcome: Outcome): void {
  task.hasEnded = true;
  task.resolve(outcome);
}
