/**
 * Returns a function that schedules `run` with `process.nextTick`, unless it is scheduled already. If called in a promise
 * continuation, `run` follows all pending continuations.
 */
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
