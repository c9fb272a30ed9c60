import { AttemptField, type PoolThreadData } from '../../../workers/messages.ts';

/** Time limit for storing the rows of a batch. Longer than the timeouts of the databases, so only a thread that hangs exceeds it. */
const STORING_MS = 30_000;

/** State of a batch, as its thread last recorded it in shared memory. */
export interface LastSeen {
  /** Index of the running task, or the number of tasks while their rows are stored. Undefined before the first task. */
  index: number | undefined;
  /** Whether the thread was terminated because of its time limit. */
  timedOut: boolean;
}

/**
 * Terminates the thread of a task that takes too long. A thread that hangs or has died cannot report its task, so each thread
 * records in shared memory which task it starts, and when. Only that task is blamed, and no other thread is terminated.
 */
export class TaskTimeout {
  /** Shared memory in which the threads record the task that they start, and when. */
  readonly attempts: PoolThreadData['attempts'];
  readonly #cells: Float64Array;
  readonly #timeoutMs: number;
  readonly #onTimeout: (threadId: number) => void;

  /** @param slots maximum number of concurrent batches @param onTimeout terminates the thread of a task that exceeds `timeoutMs` */
  constructor(slots: number, timeoutMs: number, onTimeout: (threadId: number) => void) {
    this.#timeoutMs = timeoutMs;
    this.#onTimeout = onTimeout;
    this.attempts = new SharedArrayBuffer(slots * AttemptField.count * Float64Array.BYTES_PER_ELEMENT);
    this.#cells = new Float64Array(this.attempts);
  }

  /** Watches a batch of `tasks` tasks about to run in a slot. @returns a function that ends the watch and returns the last state */
  watch(slot: number, tasks: number): () => LastSeen {
    const first = slot * AttemptField.count;
    const read = (field: number) => this.#cells[first + field] as number;
    this.#cells[first + AttemptField.beganAt] = 0;
    const timeoutMs = this.#timeoutMs;
    let timedOut = false;
    const check = () => {
      const beganAt = read(AttemptField.beganAt);
      const limitMs = read(AttemptField.index) === tasks ? Math.max(timeoutMs, STORING_MS) : timeoutMs;
      const left = beganAt === 0 ? timeoutMs : beganAt + limitMs - Number(process.hrtime.bigint()) / 1e6;
      if (left <= 0) {
        timedOut = true;
        this.#onTimeout(read(AttemptField.threadId));
      } else {
        timer = setTimeout(check, Math.ceil(left));
      }
    };
    let timer = setTimeout(check, timeoutMs);
    return () => {
      clearTimeout(timer);
      return { index: read(AttemptField.beganAt) === 0 ? undefined : read(AttemptField.index), timedOut };
    };
  }
}
