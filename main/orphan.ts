/** Interval between checks of the parent process, in milliseconds. */
const INTERVAL_MS = 250;

/**
 * Calls `onOrphaned` when the parent process has ended, if npm or npx started this process as `ticker-and-tasks`.
 * Needed, because npx sends SIGTERM only to a shell, which exits without stopping this process.
 */
export function whenOrphaned(onOrphaned: () => void): void {
  if (!/(^|[\s'"])ticker-and-tasks($|[\s'"])/.test(process.env.npm_lifecycle_script ?? '')) return;
  const parent = process.ppid;
  const timer = setInterval(() => {
    if (process.ppid === parent) return;
    clearInterval(timer);
    onOrphaned();
  }, INTERVAL_MS);
  timer.unref();
}
