import type { Durations } from './messages.ts';
import { noteDuration } from './note-duration.ts';

/** How often the event loop is asked for a turn, in milliseconds. */
const EVERY_MS = 20;

/** Notes from now on how much later than asked for this thread's event loop comes round. */
export function noteLoopDelays(delays: Durations): void {
  let asked = performance.now();
  setInterval(() => {
    const now = performance.now();
    noteDuration(delays, 0, Math.max(0, now - asked - EVERY_MS) / 1000);
    asked = now;
  }, EVERY_MS).unref();
}
