/** Returns a function that calls `run` after all pending promise callbacks. Several calls before then result in a single call of `run`. */
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
