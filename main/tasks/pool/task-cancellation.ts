import { TERMINATED } from '../../../workers/messages.ts';

/** Interval for checking whether a cancelled task has started, so that its thread can be terminated. */
const RECHECK_MS = 5;

export interface BatchCancellation {
  /** Terminates the thread if the batch's task at `index` is still running after the grace period. */
  cancel(index: number): void;
  /** Whether `cancel` has terminated the batch's thread. */
  isTerminated(): boolean;
  end(): void;
}

/**
 * Terminates the threads of cancelled tasks that do not end within the grace period. A thread is terminated only while
 * it runs the cancelled task, never while it stores rows, so a cancelled task certainly has no row.
 *
 * @param slots maximum number of concurrent batches
 */
export function taskCancellation(slots: number, graceMs: number, terminate: (slot: number) => void) {
  const running = new Int32Array(new SharedArrayBuffer(slots * Int32Array.BYTES_PER_ELEMENT));

  function watch(slot: number): BatchCancellation {
    Atomics.store(running, slot, -1);
    const timers = new Map<number, NodeJS.Timeout>();
    let isTerminated = false;
    const check = (index: number) => {
      const current = Atomics.compareExchange(running, slot, index, TERMINATED);
      if (current < index) timers.set(index, setTimeout(check, RECHECK_MS, index));
      if (current !== index) return;
      isTerminated = true;
      terminate(slot);
    };
    return {
      cancel(index) {
        if (!timers.has(index)) timers.set(index, setTimeout(check, graceMs, index));
      },
      isTerminated: () => isTerminated,
      end() {
        for (const timer of timers.values()) clearTimeout(timer);
      },
    };
  }

  return { runningTasks: running.buffer, watch };
}
