/**
 * Returns a controller that is aborted with the first of the signals. Its owner must abort it in the end, which removes
 * the listeners from the signals. (Node 18 has no `AbortSignal.any`.)
 */
export function linkedTo(...signals: (AbortSignal | undefined)[]): AbortController {
  const linked = new AbortController();
  for (const signal of signals) {
    if (signal?.aborted) linked.abort(signal.reason);
    const follow = () => linked.abort(signal?.reason);
    signal?.addEventListener('abort', follow);
    linked.signal.addEventListener('abort', () => signal?.removeEventListener('abort', follow));
  }
  return linked;
}

/** Settles like the promise, or rejects with the signal's reason if the signal is aborted first. */
export async function abortable<Value>(promise: Promise<Value>, signal: AbortSignal): Promise<Value> {
  let abort = () => {};
  const aborted = new Promise<never>((_, reject) => {
    abort = () => reject(signal.reason);
    signal.addEventListener('abort', abort);
  });
  if (signal.aborted) abort();
  try {
    // Handles the rejection of both.
    return await Promise.race([aborted, promise]);
  } finally {
    signal.removeEventListener('abort', abort);
  }
}

/** Resolves after a delay. Rejects with the signal's reason if the signal is aborted first. */
export async function sleep(delayMs: number, signal: AbortSignal): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const delay = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, delayMs);
  });
  await abortable(delay, signal).finally(() => clearTimeout(timer));
}
