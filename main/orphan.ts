/** Interval between checks of the parent process, in milliseconds. */
const INTERVAL_MS = 250;

/**
 * Calls `onOrphaned` when the parent process has ended. Does nothing unless npm or npx started this process as
 * `ticker-and-tasks`. npx sends SIGTERM only to a shell, which exits without stopping this process. A process started
 * in another way may outlive its parent.
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
