/** BullMQ, one of several processes: adds its share of the tasks, and works off what it gets at a concurrency of 5. */
import { Queue, Worker } from 'bullmq';
import { countProcessed, runNode } from './run-queue.ts';

const [share, port] = process.argv.slice(2).map(Number) as [number, number];
const connection = { host: '127.0.0.1', port };
const queue = new Queue('bench', { connection });
await queue.waitUntilReady();
const work = async ({ data }: { data: { text: string } }) => ({ output: data.text.toUpperCase() });
const worker = new Worker(queue.name, work, { connection, concurrency: 5, autorun: false });
worker.on('completed', countProcessed);
await worker.waitUntilReady();
runNode({
  share,
  startWorker: () => worker.run(),
  add: ({ data }) => queue.add('uppercase', data, { removeOnComplete: true }),
});
