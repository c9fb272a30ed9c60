import type { Worker } from 'node:worker_threads';
import { type BatchOutcome, BatchRunner, type RunningBatch } from '../../../main/tasks/pool/batch-runner.ts';
import type { Acknowledgement } from '../../../workers/messages.ts';
import { afterTest } from '../../support/cleanup.ts';
import { captureLog } from '../../support/log.ts';
import { Gate } from '../../support/task-threads/gate.ts';

export const threadFile = (name: string) => new URL(`../../support/task-threads/${name}.ts`, import.meta.url);

export const limits = { threads: 1, timeoutMs: 60_000, memoryMb: 64 };

/** A task of a batch of which nothing is heard before it ends. */
export const unheard = { sequence: null, attempt: 1, onSettled() {}, onProgress() {} };

interface RunnerOptions {
  file?: string;
  threads?: number;
  workerData?: object;
  timeoutMs?: number;
  memoryMb?: number;
  graceMs?: number;
  startTimeoutMs?: number;
}

/** Starts threads that are terminated after the test. A task's action names its behaviour. */
export async function startRunner({ file = 'behaviours', workerData = {}, ...options }: RunnerOptions = {}) {
  const gate = new Gate();
  const { log, lines } = captureLog();
  const runner = await BatchRunner.start({
    file: threadFile(file),
    ...limits,
    ...options,
    workerData: { gate: gate.shared, ...workerData },
    log,
  });
  afterTest(() => runner.destroy());
  const give = (actions: string[], onSettled: (how: Acknowledgement) => void = () => {}): RunningBatch =>
    runner.run(actions.map((action) => ({ ...unheard, body: JSON.stringify({ action }), onSettled })));
  const runAll = (...given: Parameters<typeof give>): Promise<BatchOutcome[]> => give(...given).outcomes;
  const run = (action: string, onSettled: (how: Acknowledgement) => void = () => {}): Promise<BatchOutcome> =>
    runAll([action], onSettled).then(([outcome]) => outcome as BatchOutcome);
  return { runner, gate, run, runAll, give, lines };
}

/** Collects the threads that start from now on, and counts the ended ones. */
export function watchThreads() {
  const watched = { threads: [] as Worker[], ended: 0 };
  const remember = (thread: Worker) => {
    watched.threads.push(thread);
    thread.once('exit', () => {
      watched.ended += 1;
    });
  };
  process.on('worker', remember);
  afterTest(() => process.off('worker', remember));
  return watched;
}
