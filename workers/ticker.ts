/**
 * The ticker's thread: holds the subscriptions and the prices, ticks on schedule, and posts one message
 * a tick however many subscribers there are. Prices go on moving while nobody listens.
 */
import { parentPort, workerData } from 'node:worker_threads';
import { noteLoopDelays } from './loop-delays.ts';
import { type MainToTicker, type Pid, SUBSCRIBERS, type TickerStart, type TickerToMain } from './messages.ts';
import { PriceWalk } from './price-walk.ts';
import { SeededPrices } from './seeded-prices.ts';
import { startSchedule } from './tick-schedule.ts';

if (parentPort === null) throw new Error('workers/ticker runs as a worker thread only');
const port = parentPort;
const start = workerData as TickerStart;

const values = new Float64Array(start.prices);
const prices =
  start.seed === undefined ? new PriceWalk(values) : new SeededPrices(values, start.seed, start.intervalMs);
const lastDue = new Float64Array(start.lastDue);
const subscriptions = new Map<Pid, Pid>(start.subscriptions);

function send(to: readonly Pid[] | typeof SUBSCRIBERS): void {
  const data = JSON.stringify({ type: 'ticker', data: prices.snapshot(Date.now()) });
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

startSchedule(start.intervalMs, (due) => {
  prices.step(due);
  lastDue[0] = due;
  if (subscriptions.size > 0) send(SUBSCRIBERS);
});

noteLoopDelays(start.delays);
port.postMessage({ topic: 'ready' } satisfies TickerToMain);
