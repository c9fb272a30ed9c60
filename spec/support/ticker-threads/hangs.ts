/** The real ticker, which hangs for ever when it is told that `poison` unsubscribes. */
import { parentPort } from 'node:worker_threads';
import '../../../workers/ticker.ts';
import type { HandlerToTicker } from '../../../workers/messages.ts';

parentPort?.on('message', ({ topic, handler_pid }: HandlerToTicker) => {
  while (topic === 'unsubscribe' && handler_pid === 'poison');
});
