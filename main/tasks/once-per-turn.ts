/**
 * Returns a function that schedules `run`, once however often it is called meanwhile: after the current callback of the event
 * loop, or, called by a continuation of a promise, after all continuations that are due.
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
