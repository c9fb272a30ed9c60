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
  const linked = linkedTo(signal);
  const aborted = new Promise<never>((_, reject) => {
    const abort = () => reject(signal.reason);
    if (signal.aborted) abort();
    else linked.signal.addEventListener('abort', abort);
  });
  // Handles the rejection of both. The abort has a reason, because the default is an exception, which takes long to create.
  return Promise.race([aborted, promise]).finally(() => linked.abort('settled'));
}

/** Resolves after a delay. Rejects with the signal's reason if the signal is aborted first. */
export async function sleep(delayMs: number, signal: AbortSignal): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const start = (resolve: () => void) => {
    timer = setTimeout(resolve, delayMs);
  };
  await abortable(new Promise<void>(start), signal).finally(() => clearTimeout(timer));
}
