const BASE_MS = 1_000;
const CAP_MS = 15_000;

/** Returns an exponential backoff with full jitter, in milliseconds. @param failures 0 after the first failure */
export function backoff(failures: number, random: () => number = Math.random): number {
  return random() * Math.min(CAP_MS, BASE_MS * 2 ** failures);
}

/** Controllers to abort with a signal. They share one listener, because Node warns of more than ten. */
const followersOf = new WeakMap<AbortSignal, Set<AbortController>>();

function abortFollowers(this: AbortSignal): void {
  for (const follower of followersOf.get(this) ?? []) follower.abort(this.reason);
}

/**
 * Returns a controller that is aborted with the first of the signals. Its owner must abort it in the end, which removes
 * the links to the signals. (Node 18 has no `AbortSignal.any`.)
 */
export function linkedTo(...signals: (AbortSignal | undefined)[]): AbortController {
  const linked = new AbortController();
  for (const signal of signals) {
    if (signal?.aborted) linked.abort(signal.reason);
    if (signal === undefined || linked.signal.aborted) continue;
    const followers = followersOf.get(signal) ?? new Set();
    followersOf.set(signal, followers.add(linked));
    // Adds the listener once, because it is the same function each time.
    signal.addEventListener('abort', abortFollowers);
    linked.signal.addEventListener('abort', () => {
      followers.delete(linked);
      if (followers.size === 0) signal.removeEventListener('abort', abortFollowers);
    });
  }
  return linked;
}

/** Settles like the promise, or rejects with the reason of the first signal that is aborted before. */
export async function abortable<Value>(
  promise: Promise<Value>,
  ...signals: (AbortSignal | undefined)[]
): Promise<Value> {
  const linked = linkedTo(...signals);
  const { signal } = linked;
  const aborted = new Promise<never>((_, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason));
    if (signal.aborted) reject(signal.reason);
  });
  // Handles the rejection of both. The abort has a reason, because the default is an exception, which takes long to create.
  return Promise.race([aborted, promise]).finally(() => linked.abort('settled'));
}

/** Resolves after a delay. Rejects with the reason of the first signal that is aborted before. */
export async function sleep(delayMs: number, ...signals: (AbortSignal | undefined)[]): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const over = new Promise((resolve) => {
    timer = setTimeout(resolve, delayMs);
  });
  await abortable(over, ...signals).finally(() => clearTimeout(timer));
}
