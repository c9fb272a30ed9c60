import { setImmediate } from 'node:timers/promises';
import { afterTest } from './cleanup.ts';

/** Lets the event loop turn until `holds` does, for what no event tells of; the end of the test ends it too. */
export async function until(holds: () => boolean): Promise<void> {
  let over = false;
  afterTest(() => {
    over = true;
  });
  while (!holds()) {
    if (over) throw new Error('the test ended first');
    await setImmediate();
  }
}
