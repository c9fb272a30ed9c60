/** Returns a function that schedules one call of `run` after all pending promise callbacks. Further calls until then do nothing. */
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
