import { AttemptField, type PoolThreadData } from '../../workers/messages.ts';

/**
 * Storing the rows has a time limit of its own where they are stored, and is nobody's fault: this is only for one that never
 * ends.
 */
const STORING_MS = 30_000;

export interface TimeLimitOptions {
  /** Batches that can be under way at once. */
  slots: number;
  /** How long one task of a batch may take, from the moment that its thread begins it. */
  timeoutMs: number;
  /** Ends the thread of a task that takes too long. */
  onTimeout: (threadId: number) => void;
}

/** What a thread was at when it was last heard of. */
export interface LastSeen {
  /** The task's place in the batch, the number of tasks while their rows were stored, undefined before the first. */
  index: number | undefined;
  /** Whether the thread was ended because that took too long. */
  timedOut: boolean;
}

/**
 * Ends tasks that take too long. A thread that hangs or has died cannot tell what it is at, so each notes in shared
 * memory what it begins, and when: the blame falls on one task, one that was not begun is not blamed, and no other
 * thread is hit.
 */
export class TimeLimit {
  /** For the threads. */
  readonly attempts: PoolThreadData['attempts'];
  readonly #options: TimeLimitOptions;
  readonly #cells: Float64Array;

  constructor(options: TimeLimitOptions) {
    this.#options = options;
    this.attempts = new SharedArrayBuffer(options.slots * AttemptField.count * Float64Array.BYTES_PER_ELEMENT);
    this.#cells = new Float64Array(this.attempts);
  }

  /**
   * Watches over the batch that is about to run in a slot.
   *
   * @param tasks how many tasks it has
   * @returns a function to be called when it has ended
   */
  watch(slot: number, tasks: number): () => LastSeen {
    const first = slot * AttemptField.count;
    const read = (field: number) => this.#cells[first + field] as number;
    this.#cells[first + AttemptField.beganAt] = 0;
    const { timeoutMs, onTimeout } = this.#options;
    let timedOut = false;
    const check = () => {
      const beganAt = read(AttemptField.beganAt);
      const limitMs = read(AttemptField.index) === tasks ? Math.max(timeoutMs, STORING_MS) : timeoutMs;
      const left = beganAt === 0 ? timeoutMs : beganAt + limitMs - monotonicMs();
      if (left <= 0) {
        timedOut = true;
        onTimeout(read(AttemptField.threadId));
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

function monotonicMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}
