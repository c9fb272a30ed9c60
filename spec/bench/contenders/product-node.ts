/** One of several nodes: adds its share of the tasks, and takes and processes tasks. */
import { openProduct } from './product.ts';
import { runNode } from './run-queue.ts';

const { dispatcher, add } = await openProduct();
runNode({
  share: Number(process.argv[2]),
  startWorker: () => dispatcher.start(),
  add,
  processed: () => dispatcher.metrics.completed,
});
