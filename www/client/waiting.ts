const BASE_MS = 1_000;
const CAP_MS = 15_000;

/** Returns an exponential backoff with full jitter, in milliseconds. @param failures 0 after the first failure */
export function backoff(failures: number, random: () => number = Math.random): number {
  return random() * Math.min(CAP_MS, BASE_MS * 2 ** failures);
}

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

/** Settles like the promise, or rejects with the reason of the first signal that is aborted before. */
export async function abortable<Value>(
  promise: Promise<Value>,
  ...signals: (AbortSignal | undefined)[]
): Promise<Value> {
  const linked = linkedTo(...signals);
  const aborted = new Promise<never>((_, reject) => {
    const abort = () => reject(linked.signal.reason);
    if (linked.signal.aborted) abort();
    else linked.signal.addEventListener('abort', abort);
  });
  // Handles the rejection of both. The abort has a reason, because the default is an exception, which takes long to create.
  return Promise.race([aborted, promise]).finally(() => linked.abort('settled'));
}

/** Resolves after a delay. Rejects with the reason of the first signal that is aborted before. */
export async function sleep(delayMs: number, ...signals: (AbortSignal | undefined)[]): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const start = (resolve: () => void) => {
    timer = setTimeout(resolve, delayMs);
  };
  await abortable(new Promise<void>(start), ...signals).finally(() => clearTimeout(timer));
}
