/**
 * Calls `run` for each item, with at most `limit` calls in progress.
 *
 * @throws the first error of a call, once all calls in progress have ended
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
      // After an error, exhausts the iterator, so that no worker calls `run` for another item.
      while (!rest.next().done);
    }
  };
  const ended = await Promise.allSettled(Array.from({ length: limit }, worker));
  for (const end of ended) if (end.status === 'rejected') throw end.reason;
}
