/** BullMQ: adds tasks with 32 in flight, then works them off at a concurrency of 5. It stores no row. */
import { Queue, Worker } from 'bullmq';

const [count, port] = process.argv.slice(2).map(Number) as [number, number];
const connection = { host: '127.0.0.1', port };
const queue = new Queue(`bench-${process.pid}`, { connection });
await queue.waitUntilReady();
let begun = 0;
const add = async () => {
  while (begun++ < count) await queue.add('uppercase', { text: 'hello world' }, { removeOnComplete: true });
};
const submitting = performance.now();
await Promise.all(Array.from({ length: 32 }, add));
const working = performance.now();
let done = 0;
const finished = Promise.withResolvers<void>();
const worker = new Worker(queue.name, async ({ data }) => ({ output: data.text.toUpperCase() }), {
  connection,
  concurrency: 5,
});
worker.on('completed', () => {
  if (++done === count) finished.resolve();
});
await finished.promise;
const end = performance.now();
const perSecond = (from: number, to: number) => count / ((to - from) / 1000);
console.log(
  JSON.stringify({
    submitted: perSecond(submitting, working),
    worked: perSecond(working, end),
    both: perSecond(submitting, end),
  }),
);
await worker.close();
await queue.obliterate({ force: true });
await queue.close();
