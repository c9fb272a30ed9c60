import { DELAY_BOUNDS, Histogram } from '../../workers/histogram.ts';

/** Interval between measurements of the event loop delay, in milliseconds. */
const INTERVAL_MS = 20;

/** Records this thread's event loop delay (how late a timer fires) until `stop` is called. */
export function recordLoopDelay(): { delays: Histogram; stop: () => void } {
  const delays = new Histogram(DELAY_BOUNDS);
  let previous = performance.now();
  const timer = setInterval(() => {
    const now = performance.now();
    delays.observe(Math.max(0, now - previous - INTERVAL_MS) / 1000);
    previous = now;
  }, INTERVAL_MS).unref();
  return { delays, stop: () => clearInterval(timer) };
}
