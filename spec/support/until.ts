import { afterTest } from './cleanup.ts';

/** The real timers, because a test may mock the global ones. */
const { setImmediate, setTimeout } = globalThis;

/** Event-loop turns before {@link until} starts to sleep between polls. */
const EAGER_TURNS = 100;

/** Milliseconds before a poll. They grow, because a poll each millisecond takes 6 % of a core. */
const pauseMs = (polls: number, firstMs: number) => firstMs * (polls < 50 ? 1 : 3);

/** Waits until `holds` returns true, for changes without an event. Throws if the test ends first. */
export async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  const ended = watchTestEnd();
  for (let turn = 0; ; turn++) {
    const held = holds();
    if (typeof held === 'boolean' ? held : await held) return;
    if (ended()) throw new Error('the test ended first');
    const isEager = turn < EAGER_TURNS && typeof held === 'boolean';
    const delayMs = held === false ? pauseMs(turn - EAGER_TURNS, 2) : pauseMs(turn, 20);
    await new Promise((resolve) => (isEager ? setImmediate(resolve) : setTimeout(resolve, delayMs)));
  }
}

/** Looks every 20 ms, and later every 60 ms, until the result `fits`, and returns it. Throws if the test ends first. */
export async function eventually<Found>(
  look: () => Found | Promise<Found>,
  fits: (found: Found) => boolean,
): Promise<Found> {
  const ended = watchTestEnd();
  for (let polls = 0; ; polls++) {
    const found = await look();
    if (fits(found)) return found;
    if (ended()) throw new Error('the test ended first');
    await new Promise((resolve) => setTimeout(resolve, pauseMs(polls, 20)));
  }
}

function watchTestEnd(): () => boolean {
  let over = false;
  afterTest(() => {
    over = true;
  });
  return () => over;
}
