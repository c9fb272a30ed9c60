/** BullMQ: adds its share of the tasks, and processes tasks at a concurrency of 5. It stores no row. */
import { Queue, Worker } from 'bullmq';
import { countProcessed, dueAt, takeSteps } from './run-queue.ts';

const connection = { host: '127.0.0.1', port: Number(process.argv[3]) };
const queue = new Queue('bench', { connection });
await queue.waitUntilReady();
const work = async ({ data }: { data: { text: string } }) => ({ output: data.text.toUpperCase() });
const worker = new Worker(queue.name, work, { connection, concurrency: 5, autorun: false });
worker.on('completed', countProcessed);
await worker.waitUntilReady();
const optionsOf = () => ({ removeOnComplete: true, ...(dueAt > 0 && { delay: dueAt - Date.now() }) });
takeSteps({
  startWorker: () => worker.run(),
  add: ({ data }) => queue.add('uppercase', data, optionsOf()),
  addAll: (tasks) => queue.addBulk(tasks.map(({ data }) => ({ name: 'uppercase', data, opts: optionsOf() }))),
});
