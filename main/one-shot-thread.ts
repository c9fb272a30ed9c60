import { randomUUID } from 'node:crypto';
import { Worker } from 'node:worker_threads';
import type { OneShotReport } from '../workers/messages.ts';

export interface OneShotThreadOptions {
  workerData: object;
  timeLimitMs: number;
  memoryMb: number;
}

/**
 * Runs a module in a new thread and returns the report that the thread sends. Discards the thread's output.
 *
 * @throws {Error} if the thread fails, ends without a report, or exceeds the time limit
 */
export async function runOneShotThread<Report>(file: URL, options: OneShotThreadOptions): Promise<Report> {
  const { workerData, timeLimitMs, memoryMb } = options;
  const resourceLimits = { maxOldGenerationSizeMb: memoryMb };
  const reportId = randomUUID();
  const worker = new Worker(file, {
    workerData: { ...workerData, reportId },
    resourceLimits,
    stdout: true,
    stderr: true,
  });
  const { promise, resolve, reject } = Promise.withResolvers<Report>();
  worker.on('message', (message: Partial<OneShotReport> | null | undefined) => {
    if (message?.reportId === reportId && 'report' in message) resolve(message.report as Report);
  });
  worker.once('error', (error: Error | null) => reject(new Error(`its thread failed: ${error?.message}`)));
  worker.once('exit', (code) => reject(new Error(`it ended its thread with exit code ${code}`)));
  const tooLate = () => reject(new Error(`it did not load within ${timeLimitMs / 1000} s`));
  const timer = setTimeout(tooLate, timeLimitMs);
  try {
    return await promise;
  } finally {
    clearTimeout(timer);
    await worker.terminate();
  }
}
