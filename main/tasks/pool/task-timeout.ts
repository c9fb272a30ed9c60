import { AttemptField } from '../../../workers/messages.ts';

/** State of a batch, as its thread last recorded it in shared memory. */
export interface LastSeen {
  /** Index of the running task, or number of tasks while rows are being stored. Undefined before the first task. */
  index: number | undefined;
  /** Time limit in milliseconds, if the thread was terminated for exceeding it. */
  exceededMs: number | undefined;
}

/**
 * Terminates the thread of a task that takes too long. Each thread records its task and the task's deadline in shared
 * memory, because a thread that hangs cannot report them.
 *
 * @param slots maximum number of concurrent batches
 * @param checkMs maximum interval between two checks of a task's deadline
 */
export function taskTimeout(slots: number, checkMs: number, terminate: (threadId: number) => void) {
  const cells = new Float64Array(new SharedArrayBuffer(slots * AttemptField.count * Float64Array.BYTES_PER_ELEMENT));

  /** Watches a batch. The returned function ends the watch and returns the last state that the thread has recorded. */
  function watch(slot: number): () => LastSeen {
    const first = slot * AttemptField.count;
    const read = (field: number) => cells[first + field] as number;
    cells[first + AttemptField.deadline] = 0;
    let exceededMs: number | undefined;
    const check = () => {
      const deadline = read(AttemptField.deadline);
      const left = deadline === 0 ? checkMs : deadline - Number(process.hrtime.bigint()) / 1e6;
      if (left <= 0) {
        exceededMs = read(AttemptField.timeoutMs);
        terminate(read(AttemptField.threadId));
      } else {
        // Checks again after `checkMs` at the latest, because the next task may have an earlier deadline.
        timer = setTimeout(check, Math.min(Math.ceil(left), checkMs));
      }
    };
    let timer = setTimeout(check, checkMs);
    return () => {
      clearTimeout(timer);
      return { index: read(AttemptField.deadline) === 0 ? undefined : read(AttemptField.index), exceededMs };
    };
  }

  return {
    attempts: cells.buffer,
    watch,
    threadIn: (slot: number) => cells[slot * AttemptField.count + AttemptField.threadId] as number,
  };
}
