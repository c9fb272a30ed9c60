const PARENT_CHECK_INTERVAL_MS = 250;

/** Calls `onOrphaned` when npx, which started this process, has ended, because npx sends SIGTERM only to its shell. */
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
