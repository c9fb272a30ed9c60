import { AttemptField, type PoolThreadData } from '../../workers/messages.ts';

export interface TimeLimitOptions {
  /** Attempts that can be under way at once. */
  slots: number;
  /** How long one may take, from the moment that its thread begins it. */
  timeoutMs: number;
  /** Ends the thread of an attempt that takes too long. */
  onTimeout: (threadId: number) => void;
}

/**
 * Ends attempts that take too long. A thread that hangs cannot tell what it is at, so each notes in shared memory when
 * it begins an attempt: one that is still starting is not blamed, and no other thread is hit.
 */
export class TimeLimit {
  /** For the threads. */
  readonly shared: PoolThreadData;
  readonly #options: TimeLimitOptions;
  readonly #attempts: Float64Array;
  readonly #free: number[];
  readonly #queue: Array<(slot: number) => void> = [];

  constructor(options: TimeLimitOptions) {
    const { slots } = options;
    this.#options = options;
    this.#free = Array.from({ length: slots }, (_, slot) => slot);
    const attempts = new SharedArrayBuffer(slots * AttemptField.count * Float64Array.BYTES_PER_ELEMENT);
    this.shared = { attempts };
    this.#attempts = new Float64Array(attempts);
  }

  /**
   * Runs `attempt` in the first slot that is free, in the order of asking.
   *
   * @returns what it came to, and whether its thread was ended for it
   */
  async run<T>(attempt: (slot: number) => Promise<T>): Promise<{ outcome: T; timedOut: boolean }> {
    const slot = this.#free.pop() ?? (await new Promise<number>((resolve) => this.#queue.push(resolve)));
    const first = slot * AttemptField.count;
    this.#attempts[first + AttemptField.beganAt] = 0;
    const { timeoutMs, onTimeout } = this.#options;
    let timedOut = false;
    const check = () => {
      const beganAt = this.#attempts[first + AttemptField.beganAt] as number;
      const left = beganAt === 0 ? timeoutMs : beganAt + timeoutMs - monotonicMs();
      if (left <= 0) {
        timedOut = true;
        onTimeout(this.#attempts[first + AttemptField.threadId] as number);
      } else {
        timer = setTimeout(check, Math.ceil(left));
      }
    };
    let timer = setTimeout(check, timeoutMs);
    try {
      return { outcome: await attempt(slot), timedOut };
    } finally {
      clearTimeout(timer);
      const next = this.#queue.shift();
      if (next === undefined) this.#free.push(slot);
      else next(slot);
    }
  }
}

function monotonicMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}
