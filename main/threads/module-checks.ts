import { randomUUID } from 'node:crypto';
import { Worker } from 'node:worker_threads';
import type { OneShotReport } from '../../workers/shared/user-module.ts';
import type { HandlersManifest } from '../../workers/tasks/messages.ts';
import type { Config } from '../config.ts';
import { threadFile } from './thread-file.ts';

const TIME_LIMIT_MS = 10_000;
/** Heap limit of the thread that checks a price source in MB, three times the size of the largest allowed recording. */
const PRICE_SOURCE_MEMORY_MB = 1024;

/**
 * Loads the configured task handlers module in a separate thread, and returns the module's actions.
 *
 * @throws {Error} if the module cannot be used; the message names the module and the reason
 */
export async function checkHandlers(
  { handlers: module, memoryMb }: Pick<Config['tasks'], 'handlers' | 'memoryMb'>,
  timeLimitMs = TIME_LIMIT_MS,
): Promise<HandlersManifest> {
  if (module === undefined) return new Map();
  return check<HandlersManifest>(threadFile('tasks/handlers-check'), { module }, memoryMb, timeLimitMs).catch(
    ({ message }) => {
      throw new Error(`the handlers module ${module} cannot be used: ${message}`);
    },
  );
}

/**
 * Loads and checks the configured price source in a separate thread, without calling a module's functions.
 *
 * @throws {Error} if the price source cannot be used; the message names the source and the reason
 */
export async function checkPriceSource(
  { priceSource: source, symbols }: Pick<Config['ticker'], 'priceSource' | 'symbols'>,
  timeLimitMs = TIME_LIMIT_MS,
): Promise<void> {
  if (source === undefined) return;
  const file = threadFile('ticker/price-source-check');
  await check(file, { source, symbols }, PRICE_SOURCE_MEMORY_MB, timeLimitMs).catch(({ message }) => {
    throw new Error(`the price source ${source} cannot be used: ${message.replace(/\s+/g, ' ')}`);
  });
}

/** Runs a check of a user's module in a new thread, and returns its result. Discards the thread's output. */
async function check<Result>(file: URL, data: object, memoryMb: number, timeLimitMs: number): Promise<Result> {
  const reportId = randomUUID();
  const worker = new Worker(file, {
    workerData: { ...data, reportId },
    resourceLimits: { maxOldGenerationSizeMb: memoryMb },
    stdout: true,
    stderr: true,
  });
  const { promise, resolve, reject } = Promise.withResolvers<Result>();
  worker.on('message', (message: Partial<OneShotReport> | null | undefined) => {
    if (message?.reportId !== reportId || message.report === undefined) return;
    const { report } = message;
    if ('failure' in report) reject(new Error(report.failure));
    else resolve(report.result as Result);
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
