/** Wraps `run` so that all calls in one event loop turn lead to a single run, at its end. */
export function oncePerTurn(run: () => void): () => void {
  let isScheduled = false;
  return () => {
    if (isScheduled) return;
    isScheduled = true;
    setImmediate(() => {
      isScheduled = false;
      run();
    });
  };
}
