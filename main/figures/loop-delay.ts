import { DELAYS, Distribution } from './distribution.ts';

/** How often the event loop is asked for a turn, in milliseconds. */
const EVERY_MS = 20;

/** Notes how much later than asked for the event loop of this thread comes round, until `stop` is called. (`workers/loop-delays` does so for another.) */
export function noteLoopDelay(): { delays: Distribution; stop: () => void } {
  const delays = new Distribution(DELAYS);
  let asked = performance.now();
  const timer = setInterval(() => {
    const now = performance.now();
    delays.observe(Math.max(0, now - asked - EVERY_MS) / 1000);
    asked = now;
  }, EVERY_MS).unref();
  return { delays, stop: () => clearInterval(timer) };
}
