/** Common part of the peers of `nodes`: each process adds its share of the tasks and counts those it processed. */
import { randomUUID } from 'node:crypto';
import type { Task } from './task-row.ts';

export interface Node {
  /** Number of tasks to add. */
  share: number;
  startWorker(): unknown;
  add(task: Task): Promise<unknown>;
}

let processed = 0;

/** Counts a task that this process has processed. */
export function countProcessed(): void {
  processed += 1;
}

/** Reports that this process is ready. On the first input it starts the worker and adds tasks, with 32 in flight. */
export function runNode({ share, startWorker, add }: Node): void {
  console.log(JSON.stringify({ ready: true }));
  process.stdin.once('data', async () => {
    void startWorker();
    setInterval(() => console.log(JSON.stringify({ doneByThis: processed })), 50);
    let begun = 0;
    const addNext = async () => {
      while (begun++ < share) await add(newTask());
    };
    await Promise.all(Array.from({ length: 32 }, addNext));
  });
}

function newTask(): Task {
  const created_at = Math.floor(Date.now() / 1000);
  return { id: randomUUID(), action: 'uppercase', data: { text: 'hello world' }, created_at };
}
