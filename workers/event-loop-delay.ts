import type { Durations } from './messages.ts';
import { recordDuration } from './observe-duration.ts';

const INTERVAL_MS = 20;

/**
 * Observes the delay of this thread's event loop, and increments its heartbeat as long as the loop runs.
 *
 * @param heartbeat an Int32Array of one cell
 */
export function recordLoopDelays(delays: Durations, heartbeat: SharedArrayBuffer): void {
  const beats = new Int32Array(heartbeat);
  let asked = performance.now();
  setInterval(() => {
    const now = performance.now();
    recordDuration(delays, 0, Math.max(0, now - asked - INTERVAL_MS) / 1000);
    asked = now;
    Atomics.add(beats, 0, 1);
  }, INTERVAL_MS).unref();
}
