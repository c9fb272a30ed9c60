import { parentPort, workerData } from 'node:worker_threads';
import type { OneShotReport } from './messages.ts';
import { oneLine, readThrown } from './thrown.ts';

/** Runs a one-shot thread's check of a user's module. Sends the result, or the reason of a failure, as the report. */
export function reportCheck<Report extends object>(check: () => Promise<Report>): void {
  const { reportId } = workerData as Pick<OneShotReport, 'reportId'>;
  const send = (report: Report | { failure: string }) =>
    parentPort?.postMessage({ reportId, report } satisfies OneShotReport);
  // Node emits `beforeExit` if the module awaits a promise that never settles, because nothing is left to run.
  process.once('beforeExit', () => send({ failure: 'it never finishes loading' }));
  // Not awaited, because Node prints a warning if a top-level `await` never settles.
  void check().then(send, (error) => send({ failure: oneLine(readThrown(error).reason) }));
}
