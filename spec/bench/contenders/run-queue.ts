import { randomUUID } from 'node:crypto';
import { createInterface } from 'node:readline';
import { perform } from '../../../workers/tasks/actions.ts';

export type Task = { id: string; action: string; data: Readonly<Record<string, unknown>>; created_at: number };

const IN_FLIGHT = 32;
const REPORT_MS = 20;

/** Variant of the tasks. Without one, they have no key, are due at once, and are submitted one by one. */
export const shape = process.env.BENCH_SHAPE as 'keys' | 'limits' | 'later' | 'batches' | undefined;
const BATCH = 1000;
/** Time to add a task that is due later, because all of them fall due together after the last is added. */
const ADD_MS = 0.5;
export let dueAt = 0;

interface QueueContender {
  add(task: Task): Promise<unknown>;
  addAll?(tasks: readonly Task[]): Promise<unknown>;
  startWorker(): unknown;
  /** Returns the number of tasks that this process has processed. Those that were counted, if absent. */
  processed?(): number;
}

let counted = 0;

export function countProcessed(): void {
  counted += 1;
}

/** Reports that this process is ready, and takes steps from standard input: `add` its share of the tasks, and `work`. */
export function takeSteps({ add, addAll, startWorker, processed = () => counted }: QueueContender): void {
  const report = (values: object) => console.log(JSON.stringify(values));
  createInterface(process.stdin).on('line', async (step) => {
    if (step === 'work') {
      void startWorker();
      setInterval(() => report({ processed: processed() }), REPORT_MS);
    } else {
      const count = Number(process.argv[2]);
      if (shape === 'later') dueAt = Date.now() + 1000 + count * ADD_MS;
      await (shape === 'batches' && addAll !== undefined ? addBatches(count, addAll) : addTasks(count, add));
      report({ added: true, ...(dueAt > 0 && { dueAt }) });
    }
  });
  report({ ready: true });
}

async function addTasks(count: number, add: QueueContender['add']): Promise<void> {
  let begun = 0;
  const addNext = async () => {
    while (begun++ < count) await add(newTask());
  };
  await Promise.all(Array.from({ length: IN_FLIGHT }, addNext));
}

async function addBatches(count: number, addAll: NonNullable<QueueContender['addAll']>): Promise<void> {
  for (let begun = 0; begun < count; begun += BATCH)
    await addAll(Array.from({ length: Math.min(BATCH, count - begun) }, newTask));
}

function newTask(): Task {
  const created_at = Math.floor(Date.now() / 1000);
  return { id: randomUUID(), action: 'uppercase', data: { text: 'hello world' }, created_at };
}

/** Columns of the product's table, where the peers store a row for each task. */
export const COLUMNS = 'id, payload, status, result, created_at, processed_at';

export const POSTGRES_INSERT = `INSERT INTO tasks (${COLUMNS}) VALUES ($1, $2, $3, $4, $5, $6)`;

/** Runs the action of a task and returns its row, in the order of {@link COLUMNS}. */
export function processTask({ id, action, data, created_at }: Task): (string | number)[] {
  const result = JSON.stringify({ output: perform(action, data) });
  const processedAt = Math.floor(Date.now() / 1000);
  return [id, JSON.stringify({ id, action, data, created_at }), 'completed', result, created_at, processedAt];
}
