const PARENT_CHECK_INTERVAL_MS = 250;

/** Calls `onOrphaned` when npx has ended, if npx started this process. npx does not pass SIGTERM on to this process. */
export function whenOrphaned(onOrphaned: () => void): void {
  if (!/(^|[\s'"])ticker-and-tasks($|[\s'"])/.test(process.env.npm_lifecycle_script ?? '')) return;
  const parent = process.ppid;
  const timer = setInterval(() => {
    if (process.ppid === parent) return;
    clearInterval(timer);
    onOrphaned();
  }, PARENT_CHECK_INTERVAL_MS);
  timer.unref();
}
