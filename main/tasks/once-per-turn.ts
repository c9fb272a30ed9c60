/** Wraps `run` so that all calls in one event loop turn lead to a single run, scheduled with `process.nextTick`. */
export function oncePerTurn(run: () => void): () => void {
  let isScheduled = false;
  return () => {
    if (isScheduled) return;
    isScheduled = true;
    process.nextTick(() => {
      isScheduled = false;
      run();
    });
  };
}
