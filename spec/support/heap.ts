import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/** Bytes of live objects on the heap, measured after a full garbage collection. */
export async function liveHeapBytes(): Promise<number> {
  setFlagsFromString('--expose-gc');
  const collect: () => void = runInNewContext('gc');
  // Pending promise reactions keep objects alive.
  await new Promise(setImmediate);
  collect();
  return process.memoryUsage().heapUsed;
}
