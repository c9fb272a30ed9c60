import { randomUUID } from 'node:crypto';
import { busyPoll } from '../../../workers/busy-poll.ts';
import type { HandlersManifest } from '../../../workers/handlers-manifest.ts';
import type { TaskStoreLocation, TaskWorkerStart } from '../../../workers/messages.ts';
import type { Config } from '../../config.ts';
import type { Log } from '../../log.ts';
import { workerFile } from '../../worker-file.ts';
import { BatchRunner } from './batch-runner.ts';
import { type ProgressListener, WorkerPool } from './worker-pool.ts';

/** Maximum number of deliveries in a batch. A thread stores the rows of a batch in one transaction. */
const MAX_BATCH_SIZE = 32;

interface PoolParts {
  writeLock?: SharedArrayBuffer;
  actions?: HandlersManifest;
  onProgress?: ProgressListener;
}

/** Starts the worker threads that process tasks and store their rows. @throws {Error} if the threads do not start */
export async function startPool(
  { concurrency: threads, timeoutMs, memoryMb, handlers: module, cancelGraceMs: graceMs, bodyLimit }: Config['tasks'],
  location: TaskStoreLocation,
  log: Log,
  { writeLock = new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT), actions = new Map(), onProgress }: PoolParts = {},
): Promise<WorkerPool> {
  const timeouts = [...actions.values()].map((action) => (action.timeoutMs ?? timeoutMs) + graceMs);
  const handlers =
    module === undefined ? undefined : { module, graceMs, maxOutputBytes: bodyLimit, abortChannel: randomUUID() };
  const batches = await BatchRunner.start({
    file: workerFile('task-worker'),
    threads,
    timeoutMs,
    graceMs,
    shortestTimeoutMs: Math.min(timeoutMs, ...timeouts),
    memoryMb,
    workerData: { ...location, writeLock, ...(handlers && { handlers }) } satisfies TaskWorkerStart,
    ...(handlers && { abortChannel: handlers.abortChannel }),
    log,
  });
  // A batch whose rows are stored in PostgreSQL takes longer than the polling.
  const poll = 'databaseUrl' in location ? undefined : busyPoll();
  return new WorkerPool(batches, MAX_BATCH_SIZE, onProgress, poll);
}
