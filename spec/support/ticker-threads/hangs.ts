/** The real ticker, which hangs for ever when it is told that `poison` unsubscribes. */
import { parentPort } from 'node:worker_threads';
import '../../../workers/ticker.ts';
import type { MainToTicker } from '../../../workers/messages.ts';

parentPort?.on('message', (messages: MainToTicker) => {
  while (messages.some((message) => message.topic === 'unsubscribe' && message.handler_pid === 'poison'));
});
