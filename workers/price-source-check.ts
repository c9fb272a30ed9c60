/** One-shot worker thread that loads a price source, without calling its functions, and reports whether it loads. */
import { workerData } from 'node:worker_threads';
import type { PriceSourceCheckStart, PriceSourceReport } from './messages.ts';
import { openPriceSource } from './open-price-source.ts';
import { sendReport } from './send-report.ts';
import { readThrown } from './thrown.ts';

const { source, symbols } = workerData as PriceSourceCheckStart;

function report(message: PriceSourceReport): void {
  sendReport(message);
}

async function check(): Promise<void> {
  try {
    await openPriceSource({ source, symbols, seed: undefined, intervalMs: 1000 });
    report({ isUsable: true });
  } catch (error) {
    report({ failure: readThrown(error).reason });
  }
}

// Node emits `beforeExit` if the module awaits a promise that never settles, because nothing is left to run.
process.once('beforeExit', () => report({ failure: 'it never finishes loading' }));
// Not awaited, because Node prints a warning if a top-level `await` never settles.
void check();
