/** BullMQ, one of several processes: adds its share of the tasks, and works off what it gets at a concurrency of 5. */
import { Queue, Worker } from 'bullmq';

const [share, port] = process.argv.slice(2).map(Number) as [number, number];
const connection = { host: '127.0.0.1', port };
const queue = new Queue('bench', { connection });
await queue.waitUntilReady();
let done = 0;
const work = async ({ data }: { data: { text: string } }) => ({ output: data.text.toUpperCase() });
const worker = new Worker(queue.name, work, { connection, concurrency: 5, autorun: false });
worker.on('completed', () => {
  done += 1;
});
await worker.waitUntilReady();
console.log(JSON.stringify({ ready: true }));
process.stdin.once('data', async () => {
  void worker.run();
  setInterval(() => console.log(JSON.stringify({ doneByThis: done })), 50);
  let begun = 0;
  const add = async () => {
    while (begun++ < share) await queue.add('uppercase', { text: 'hello world' }, { removeOnComplete: true });
  };
  await Promise.all(Array.from({ length: 32 }, add));
});
