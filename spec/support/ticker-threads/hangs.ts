/** The real ticker, except that it hangs forever when `poison` unsubscribes. */
import { parentPort } from 'node:worker_threads';
import '../../../workers/ticker.ts';
import type { MainToTicker } from '../../../workers/messages.ts';

parentPort?.on('message', (messages: MainToTicker) => {
  while (messages.some((message) => message.topic === 'unsubscribe' && message.handler_pid === 'poison'));
});
