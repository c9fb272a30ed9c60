/** The product's queue without HTTP: the same as BullMQ's contender does, and every result is stored as a row. */
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout } from 'node:timers/promises';
import { openProduct } from './product.ts';
import { runQueue } from './run-queue.ts';

const count = Number(process.argv[2]);
const { config, dispatcher, add, close } = await openProduct();
const measured = await runQueue(count, add, async () => {
  dispatcher.start();
  while (dispatcher.metrics.completed < count) await setTimeout(1);
});
await close();
using database = new DatabaseSync(join(config.storage.dataDir, 'tasks.db'));
const rows = database.prepare('SELECT count(*) AS n FROM tasks').get();
if (rows?.n !== count) throw new Error(`${rows?.n} rows of ${count} were stored`);
console.log(JSON.stringify(measured));
