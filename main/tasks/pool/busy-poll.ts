import { availableParallelism } from 'node:os';

/** Maximum duration of a poll: longer than a batch of short tasks takes, but too short to keep a core busy. */
const POLL_MS = 0.3;

/**
 * Keeps the main thread's event loop awake for a moment after a batch starts, because the batch may end soon and waking a
 * sleeping thread takes about as long as a short task. Other events are still handled.
 *
 * @param cores number of CPU cores. Polling is off for a single core, because it would delay the worker thread
 */
export function busyPoll(cores: number = availableParallelism()) {
  let until = 0;
  let isPolling = false;
  const poll = () => {
    isPolling = performance.now() < until;
    if (isPolling) setImmediate(poll);
  };
  return {
    /** Keeps the event loop awake for the next {@link POLL_MS} milliseconds. */
    begin() {
      if (cores === 1) return;
      until = performance.now() + POLL_MS;
      if (!isPolling) setImmediate(poll);
      isPolling = true;
    },
    end() {
      until = 0;
    },
  };
}
