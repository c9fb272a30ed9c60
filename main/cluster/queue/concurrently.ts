/**
 * Calls `run` for each item, in order, with at most `limit` calls in progress.
 *
 * @throws {Error} the first error of a call; no calls follow it, and those in progress have ended
 */
export async function concurrently<T>(
  items: readonly T[],
  limit: number,
  run: (item: T) => Promise<void>,
): Promise<void> {
  const rest = items.values();
  const worker = async () => {
    try {
      for (const item of rest) await run(item);
    } finally {
      // After an error, leaves nothing for the other workers.
      while (!rest.next().done);
    }
  };
  const ended = await Promise.allSettled(Array.from({ length: limit }, worker));
  for (const end of ended) if (end.status === 'rejected') throw end.reason;
}
