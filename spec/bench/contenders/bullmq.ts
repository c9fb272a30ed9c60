/** BullMQ: adds tasks, then processes them at a concurrency of 5. It stores no row. */
import { Queue, Worker } from 'bullmq';
import { runQueue } from './run-queue.ts';

const [count, port] = process.argv.slice(2).map(Number) as [number, number];
const connection = { host: '127.0.0.1', port };
const queue = new Queue('bench', { connection });
await queue.waitUntilReady();
const work = async ({ data }: { data: { text: string } }) => ({ output: data.text.toUpperCase() });

async function processAll(): Promise<void> {
  let done = 0;
  const worker = new Worker(queue.name, work, { connection, concurrency: 5 });
  await new Promise<void>((resolve) => {
    worker.on('completed', () => {
      if (++done === count) resolve();
    });
  });
}

const add = ({ data }) => queue.add('uppercase', data, { removeOnComplete: true });
console.log(JSON.stringify(await runQueue(count, add, processAll)));
