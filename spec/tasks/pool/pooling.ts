import type { BatchOutcome } from '../../../main/tasks/pool/batch-runner.ts';
import type { Outcome } from '../../../main/tasks/pool/worker-pool.ts';
import { WorkerPool } from '../../../main/tasks/pool/worker-pool.ts';
import type { Delivery } from '../../../main/tasks/queue/queue.ts';
import type { TaskProgress } from '../../../workers/messages.ts';
import { afterTest } from '../../support/cleanup.ts';
import { HandDrivenRunner } from './hand-driven-runner.ts';

export const returned: BatchOutcome = { ended: 'returned' };
export const died: BatchOutcome = { ended: 'crashed', reason: 'thread died' };
export const nextTurn = () => new Promise(setImmediate);

/** Creates a pool whose batches a spec ends. */
export function startPool({ threads = 2, maxBatch = 3 } = {}) {
  const runner = new HandDrivenRunner(threads);
  const progress: (TaskProgress & { id: string })[] = [];
  const pool = new WorkerPool(runner, maxBatch, ({ message: { id } }, report) => progress.push({ id, ...report }));
  afterTest(() => pool.stop(Promise.resolve()));
  const started: string[] = [];
  const ended: Record<string, Outcome> = {};
  let sequence = 0;
  const onStart = async (id: string): Promise<void> => {
    started.push(id);
  };
  /** Runs deliveries that arrive in the same event-loop turn. Each body equals its id. */
  const run = async (ids: string, about: Partial<Delivery> = {}, begin = onStart) => {
    for (const id of ids) {
      const message = { id, body: id };
      const delivery = {
        message,
        sequence: ++sequence,
        acceptedAt: 0,
        attempt: 1,
        crashes: 0,
        suspect: false,
        ...about,
      };
      void pool
        .run(delivery, () => begin(id))
        .then((outcome) => {
          ended[id] = outcome;
        });
    }
    await nextTurn();
  };
  /** Ends the tasks of a batch, and waits for the next event-loop turn. */
  const end = async (index: number, ...outcomes: BatchOutcome[]) => {
    runner.end(index, ...outcomes);
    await nextTurn();
  };
  return { runner, pool, started, ended, progress, run, end };
}
