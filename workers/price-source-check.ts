/** One-shot worker thread that loads a price source, without calling its functions, and reports whether it loads. */
import { workerData } from 'node:worker_threads';
import type { PriceSourceCheckStart, PriceSourceReport } from './messages.ts';
import { openPriceSource } from './open-price-source.ts';
import { reportCheck } from './report-check.ts';

const { source, symbols } = workerData as PriceSourceCheckStart;

reportCheck(async (): Promise<PriceSourceReport> => {
  await openPriceSource({ source, symbols, seed: undefined, intervalMs: 1000 });
  return { isUsable: true };
});
