const INTERVAL_MS = 5;

/** Measures the longest delay of timers in this process, which tells the machine's load. */
export function watchDelays(): { worstMs(): number; reset(): void } {
  let worstMs = 0;
  let dueMs = performance.now() + INTERVAL_MS;
  setInterval(() => {
    const now = performance.now();
    worstMs = Math.max(worstMs, now - dueMs);
    dueMs = now + INTERVAL_MS;
  }, INTERVAL_MS);
  return {
    worstMs: () => worstMs,
    reset() {
      worstMs = 0;
    },
  };
}
