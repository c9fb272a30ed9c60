/**
 * Returns a controller that is aborted with the first of the signals. Its owner must abort it in the end, which removes
 * the listeners from the signals. (Node 18 has no `AbortSignal.any`.)
 */
export function linkedTo(...signals: (AbortSignal | undefined)[]): AbortController {
  const linked = new AbortController();
  for (const signal of signals) {
    if (signal?.aborted) linked.abort(signal.reason);
    signal?.addEventListener('abort', () => linked.abort(signal.reason), { signal: linked.signal });
  }
  return linked;
}

/** Settles like the promise, or rejects with the signal's reason if the signal is aborted first. */
export async function abortable<Value>(promise: Promise<Value>, signal: AbortSignal): Promise<Value> {
  const settled = new AbortController();
  const aborted = new Promise<never>((_, reject) => {
    signal.throwIfAborted();
    signal.addEventListener('abort', () => reject(signal.reason), { signal: settled.signal });
  });
  // With a reason, because the default is an exception, which takes long to create.
  return Promise.race([promise, aborted]).finally(() => settled.abort('settled'));
}

/** Resolves after a delay. Rejects with the signal's reason if the signal is aborted first. */
export async function sleep(delayMs: number, signal: AbortSignal): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const delay = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, delayMs);
  });
  await abortable(delay, signal).finally(() => clearTimeout(timer));
}
