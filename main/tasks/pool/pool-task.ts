import type { Acknowledgement } from '../../../workers/messages.ts';
import type { Delivery } from '../queue/queue.ts';

/** Outcome of running a delivery in the pool. */
export type Outcome =
  /** The task's row is stored, or its handler has acknowledged the delivery itself. */
  | { ended: 'returned' }
  /** `retryAfterMs` is the retry delay that the handler asked for. */
  | { ended: 'raised'; reason: string; permanent: boolean; retryAfterMs?: number }
  /** The task's row was not stored, or its start was not recorded, because writes currently fail. */
  | { ended: 'unstored'; reason: string }
  /** The thread died, or was terminated after the time limit, because of this task. */
  | { ended: 'crashed'; reason: string }
  /** The attempt was not started, or was ended for a reason unrelated to the task. */
  | { ended: 'interrupted'; reason: string }
  /** The task was cancelled before its attempt succeeded. */
  | { ended: 'cancelled' };

/** A delivery that is waiting or running in the pool, and its state. */
export interface PoolTask {
  delivery: Delivery;
  onStart: () => Promise<void>;
  /** Resolves the promise returned by `WorkerPool.run`. Only the first call has an effect. */
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

/** Returns the outcome of a delivery that its handler has acked or nacked. */
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
