import type { PriceSourceCheckStart, PriceSourceReport } from '../workers/messages.ts';
import type { Config } from './config.ts';
import { runOneShotThread } from './one-shot-thread.ts';
import { workerFile } from './worker-file.ts';

const TIME_LIMIT_MS = 10_000;
/** Heap limit of the checking thread in MB, three times the size of the largest allowed price recording. */
const MEMORY_MB = 1024;

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
  const fail = (reason: string): never => {
    throw new Error(`the price source ${source} cannot be used: ${reason.replace(/\s+/g, ' ')}`);
  };
  const workerData: PriceSourceCheckStart = { source, symbols };
  const options = { workerData, timeLimitMs, memoryMb: MEMORY_MB };
  const report = await runOneShotThread<PriceSourceReport>(workerFile('price-source-check'), options).catch(
    ({ message }) => fail(message),
  );
  if ('failure' in report) fail(report.failure);
}
