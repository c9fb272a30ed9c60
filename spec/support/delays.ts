import { monitorEventLoopDelay } from 'node:perf_hooks';

/** Measures the longest delay of timers in this process, which tells the machine's load. */
export function watchDelays(): { worstMs(): number; reset(): void } {
  const resolution = 5;
  const delays = monitorEventLoopDelay({ resolution });
  delays.enable();
  return { worstMs: () => Math.max(0, delays.max / 1e6 - resolution), reset: () => delays.reset() };
}
