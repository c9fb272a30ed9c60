/** Returns a function that schedules `run` once with `process.nextTick`: in a promise continuation, after all pending ones. */
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
