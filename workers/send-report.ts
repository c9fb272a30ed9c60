import { parentPort, workerData } from 'node:worker_threads';
import type { OneShotReport } from './messages.ts';

/** Sends a one-shot thread's report to the main thread. Only the first report has an effect. */
export function sendReport(report: unknown): void {
  const { reportId } = workerData as Pick<OneShotReport, 'reportId'>;
  parentPort?.postMessage({ reportId, report } satisfies OneShotReport);
}
