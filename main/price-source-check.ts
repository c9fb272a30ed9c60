import type { PriceSourceCheckStart, PriceSourceReport } from '../workers/messages.ts';
import type { Config } from './config.ts';
import { runOneShotThread } from './one-shot-thread.ts';
import { workerFile } from './worker-file.ts';

const TIME_LIMIT_MS = 10_000;
/** Heap limit of the thread in MB. The largest recording needs a third of it. */
const MEMORY_MB = 1024;

/**
 * Loads and checks the price source, if one is set, in a thread of its own. Calls none of its functions.
 *
 * @throws {Error} with one line that names the source and the reason
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
