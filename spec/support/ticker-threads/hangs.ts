/** The real ticker, except that it hangs forever when `poison` unsubscribes. */
import { parentPort } from 'node:worker_threads';
import '../../../workers/ticker.ts';
import type { MainToTicker } from '../../../workers/messages.ts';

parentPort?.on('message', (messages: MainToTicker) => {
  if (!messages.some((message) => message.topic === 'unsubscribe' && message.handler_pid === 'poison')) return;
  // Blocks the thread without using the CPU.
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
});
