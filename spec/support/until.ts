import { afterTest } from './cleanup.ts';

/** The real timers, because a test may mock the global ones. */
const { setImmediate, setTimeout } = globalThis;

/**
 * Event-loop turns before {@link until} starts to sleep between polls, so that a long wait leaves the CPU to others.
 */
const EAGER_TURNS = 100;

/** Waits until `holds` returns true, for changes without an event. Throws if the test ends first. */
export async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  const ended = watchTestEnd();
  for (let turn = 0; ; turn++) {
    const held = holds();
    if (typeof held === 'boolean' ? held : await held) return;
    if (ended()) throw new Error('the test ended first');
    const isEager = turn < EAGER_TURNS && typeof held === 'boolean';
    await new Promise((resolve) => (isEager ? setImmediate(resolve) : setTimeout(resolve, held === false ? 1 : 20)));
  }
}

/** Calls `look` every 20 ms until its result `fits`, and returns that result. Throws if the test ends first. */
export async function eventually<Found>(
  look: () => Found | Promise<Found>,
  fits: (found: Found) => boolean,
): Promise<Found> {
  const ended = watchTestEnd();
  for (;;) {
    const found = await look();
    if (fits(found)) return found;
    if (ended()) throw new Error('the test ended first');
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

function watchTestEnd(): () => boolean {
  let over = false;
  afterTest(() => {
    over = true;
  });
  return () => over;
}
