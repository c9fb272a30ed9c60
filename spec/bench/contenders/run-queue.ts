/** Common parts of the contenders that queue tasks. */
import { randomUUID } from 'node:crypto';
import type { Task } from './task-row.ts';

/** Tasks that are submitted concurrently. */
const IN_FLIGHT = 32;

export async function addTasks(count: number, add: (task: Task) => Promise<unknown>): Promise<void> {
  let begun = 0;
  const addNext = async () => {
    while (begun++ < count) {
      const created_at = Math.floor(Date.now() / 1000);
      await add({ id: randomUUID(), action: 'uppercase', data: { text: 'hello world' }, created_at });
    }
  };
  await Promise.all(Array.from({ length: IN_FLIGHT }, addNext));
}

/** Adds all tasks, then processes them, and reports how many it adds and processes a second. */
export async function runQueue(count: number, add: (task: Task) => Promise<unknown>, process: () => Promise<unknown>) {
  const submitting = performance.now();
  await addTasks(count, add);
  const working = performance.now();
  const cpuBefore = globalThis.process.cpuUsage();
  await process();
  const end = performance.now();
  const { user, system } = globalThis.process.cpuUsage(cpuBefore);
  const perSecond = (from: number, to: number) => count / ((to - from) / 1000);
  return {
    submitted: perSecond(submitting, working),
    worked: perSecond(working, end),
    both: perSecond(submitting, end),
    cpu: (user + system) / count,
  };
}

/** One of several processes that each add a share of the tasks. */
export interface Node {
  /** Number of tasks to add. */
  share: number;
  startWorker(): unknown;
  add(task: Task): Promise<unknown>;
  /** Returns the number of tasks that this process has processed. Those that were counted, if absent. */
  processed?(): number;
}

let counted = 0;

/** Counts a task that this process has processed. */
export function countProcessed(): void {
  counted += 1;
}

/** Reports that this process is ready. On the first input it starts the worker and adds tasks. */
export function runNode({ share, startWorker, add, processed = () => counted }: Node): void {
  console.log(JSON.stringify({ ready: true }));
  process.stdin.once('data', async () => {
    void startWorker();
    setInterval(() => console.log(JSON.stringify({ doneByThis: processed() })), 50);
    await addTasks(share, add);
  });
}
