/** The real ticker, except that it moves the first price to 50,000 and dies when `poison` unsubscribes. */
import { parentPort, workerData } from 'node:worker_threads';
import '../../../workers/ticker.ts';
import type { MainToTicker, TickerStart } from '../../../workers/messages.ts';

parentPort?.on('message', (messages: MainToTicker) => {
  if (!messages.some((message) => message.topic === 'unsubscribe' && message.handler_pid === 'poison')) return;
  new Float64Array((workerData as TickerStart).prices)[0] = 50_000;
  process.exit(7);
});
