import { DELAY_BOUNDS, Histogram } from '../../workers/histogram.ts';

const MEASUREMENT_INTERVAL_MS = 20;

/** Records the calling thread's event loop delay (how late a timer fires) until `stop` is called. */
export function recordLoopDelay(): { delays: Histogram; stop: () => void } {
  const delays = new Histogram(DELAY_BOUNDS);
  let previous = performance.now();
  const timer = setInterval(() => {
    const now = performance.now();
    delays.observe(Math.max(0, now - previous - MEASUREMENT_INTERVAL_MS) / 1000);
    previous = now;
  }, MEASUREMENT_INTERVAL_MS).unref();
  return { delays, stop: () => clearInterval(timer) };
}
