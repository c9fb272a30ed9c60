/**
 * The ticker's thread: holds the subscriptions and the prices, ticks on schedule, and posts one message
 * a tick however many subscribers there are. Prices go on moving while nobody listens.
 */
import { parentPort, workerData } from 'node:worker_threads';
import { type MainToTicker, type Pid, SUBSCRIBERS, type TickerStart, type TickerToMain } from './messages.ts';
import { PriceWalk } from './price-walk.ts';
import { startSchedule } from './tick-schedule.ts';

if (parentPort === null) throw new Error('workers/ticker runs as a worker thread only');
const port = parentPort;
const start = workerData as TickerStart;

const walk = new PriceWalk(new Float64Array(start.prices));
const subscriptions = new Map<Pid, Pid>(start.subscriptions);

function send(to: readonly Pid[] | typeof SUBSCRIBERS): void {
  const data = JSON.stringify({ type: 'ticker', data: walk.snapshot(Date.now()) });
  port.postMessage({ to, message: { topic: 'ws.send', type: 'text', data } } satisfies TickerToMain);
}

port.on('message', (messages: MainToTicker) => {
  const joined: Pid[] = [];
  for (const message of messages) {
    if (message.topic === 'unsubscribe') {
      subscriptions.delete(message.handler_pid);
    } else {
      subscriptions.set(message.handler_pid, message.client_pid);
      joined.push(message.client_pid);
    }
  }
  if (joined.length > 0) send(joined);
});

startSchedule(start.intervalMs, () => {
  walk.step();
  if (subscriptions.size > 0) send(SUBSCRIBERS);
});

port.postMessage({ topic: 'ready' } satisfies TickerToMain);
