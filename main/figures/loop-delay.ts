import { Distribution } from './distribution.ts';

/** How often the event loop is asked for a turn, in milliseconds. */
const EVERY_MS = 20;
const BOUNDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5] as const;

/** Notes how much later than asked for the event loop of this thread comes round, until `stop` is called. */
export function noteLoopDelay(): { delays: Distribution; stop: () => void } {
  const delays = new Distribution(BOUNDS);
  let asked = performance.now();
  const timer = setInterval(() => {
    const now = performance.now();
    delays.observe(Math.max(0, now - asked - EVERY_MS) / 1000);
    asked = now;
  }, EVERY_MS).unref();
  return { delays, stop: () => clearInterval(timer) };
}
