/** Time in milliseconds between two checks of the parent process. */
const INTERVAL_MS = 250;

/**
 * Calls `onOrphaned` when the parent process has ended, but only if npm started this process as the command `ticker-and-tasks`. npx
 * passes SIGTERM only to a shell, which ends without ending this process. A process started in any other way may outlive its parent.
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
