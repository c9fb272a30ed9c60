/** The real ticker, except that it moves the first price to 50,000 and dies when it is poisoned. */
import { workerData } from 'node:worker_threads';
import type { TickerStart } from '../../../workers/ticker/messages.ts';

const channel = new BroadcastChannel('poison');
channel.onmessage = () => {
  new Float64Array((workerData as TickerStart).prices)[0] = 50_000;
  channel.postMessage('dies');
  process.exit(7);
};

await import('../../../workers/ticker/ticker.ts');
