import { availableParallelism } from 'node:os';

/** Maximum time to keep the event loop awake. Longer than a batch of short tasks takes. */
export const POLL_MS = 0.3;

export type BusyPoll = ReturnType<typeof busyPoll>;

/**
 * Keeps the event loop awake while another thread's message is expected, because waking a sleeping thread takes about as
 * long as a short task. Does nothing on a single core, because polling would delay the other thread.
 */
export function busyPoll(cores: number = availableParallelism()) {
  let until = 0;
  let isPolling = false;
  const poll = () => {
    isPolling = performance.now() < until;
    if (isPolling) setImmediate(poll);
  };
  return {
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
