import { afterTest } from './cleanup.ts';

/** The real timers, because a test may mock the global ones. */
const { setImmediate, setTimeout } = globalThis;

/** Event-loop turns before polls without I/O begin to sleep. */
const EAGER_TURNS = 100;

/** Waits until `holds` returns true, for changes without an event. Throws if the test ends first. */
export async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  await eventually(holds, (held) => held);
}

/** Polls until the result of `look` fits, and returns that result. Throws if the test ends first. */
export async function eventually<Found>(
  look: () => Found | Promise<Found>,
  fits: (found: Found) => boolean,
): Promise<Found> {
  let isOver = false;
  afterTest(() => {
    isOver = true;
  });
  for (let polls = 0; ; polls++) {
    const looked = look();
    const found = await looked;
    if (fits(found)) return found;
    if (isOver) throw new Error('the test ended first');
    const isQuick = !(looked instanceof Promise);
    // The pauses grow, because a poll each millisecond takes 6 % of a core.
    const delayMs = (isQuick ? 2 : 20) * (polls < EAGER_TURNS + 50 ? 1 : 3);
    const isEager = isQuick && polls < EAGER_TURNS;
    await new Promise((resolve) => (isEager ? setImmediate(resolve) : setTimeout(resolve, delayMs)));
  }
}

/** Returns the result of a step, or rejects with an error if the step takes too long. */
export function inTime<Result>(limitMs: number, error: string, step: Promise<Result>): Promise<Result> {
  const late = new Promise<never>((_, reject) => setTimeout(reject, limitMs, new Error(error)).unref());
  return Promise.race([step, late]);
}

/** Lets specs wait for what events change. */
export class Condition {
  #change = Promise.withResolvers<void>();

  /** Must be called after each change. */
  changed(): void {
    this.#change.resolve();
    this.#change = Promise.withResolvers();
  }

  /** Returns the first defined result of `look`, now or after a change. Throws what `look` throws. */
  async found<Found>(look: () => Found | undefined): Promise<Found> {
    for (;;) {
      const found = look();
      if (found !== undefined) return found;
      await this.#change.promise;
    }
  }
}

/** Returns a function that returns the number of event-loop turns so far. Counting stops after the test. */
export function countTurns(): () => number {
  let turns = 0;
  let next: NodeJS.Immediate;
  const count = () => {
    turns++;
    next = setImmediate(count);
  };
  count();
  afterTest(() => clearImmediate(next));
  return () => turns;
}
