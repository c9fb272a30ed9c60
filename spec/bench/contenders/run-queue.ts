/** Common part of the contenders that queue tasks. */
import { randomUUID } from 'node:crypto';
import { createInterface } from 'node:readline';
import type { Task } from './task-row.ts';

/** Tasks that are submitted concurrently. */
const IN_FLIGHT = 32;
const REPORT_MS = 20;

export interface QueueContender {
  add(task: Task): Promise<unknown>;
  startWorker(): unknown;
  /** Returns the number of tasks that this process has processed. Those that were counted, if absent. */
  processed?(): number;
}

let counted = 0;

/** Counts a task that this process has processed. */
export function countProcessed(): void {
  counted += 1;
}

/** Reports that this process is ready, and takes steps from standard input: `add` its share of the tasks, and `work`. */
export function takeSteps({ add, startWorker, processed = () => counted }: QueueContender): void {
  const report = (values: object) => console.log(JSON.stringify(values));
  createInterface(process.stdin).on('line', async (step) => {
    if (step === 'work') {
      void startWorker();
      setInterval(() => report({ processed: processed() }), REPORT_MS);
    } else {
      await addTasks(Number(process.argv[2]), add);
      report({ added: true });
    }
  });
  report({ ready: true });
}

async function addTasks(count: number, add: QueueContender['add']): Promise<void> {
  let begun = 0;
  const addNext = async () => {
    while (begun++ < count) {
      const created_at = Math.floor(Date.now() / 1000);
      await add({ id: randomUUID(), action: 'uppercase', data: { text: 'hello world' }, created_at });
    }
  };
  await Promise.all(Array.from({ length: IN_FLIGHT }, addNext));
}
