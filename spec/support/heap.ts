import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/** Returns the bytes of live objects on the heap after a full garbage collection. */
export async function liveHeapBytes(): Promise<number> {
  setFlagsFromString('--expose-gc');
  const collect: () => void = runInNewContext('gc');
  // Reactions of settled promises keep objects alive until they have run.
  await new Promise(setImmediate);
  collect();
  return process.memoryUsage().heapUsed;
}
