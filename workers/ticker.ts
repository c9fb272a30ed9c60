/** Worker thread of the ticker. Posts one message per tick, regardless of the number of subscribers. */
import { parentPort, workerData } from 'node:worker_threads';
import { Histogram } from './histogram.ts';
import {
  type MainToTicker,
  type Pid,
  SUBSCRIBERS,
  type TickerStart,
  type TickerToMain,
  type WsSend,
} from './messages.ts';
import { isModule, openPriceSource } from './open-price-source.ts';
import { SourcedPrices } from './sourced-prices.ts';
import { startSchedule } from './tick-schedule.ts';

const HEARTBEAT_INTERVAL_MS = 20;

if (parentPort === null) throw new Error('workers/ticker runs as a worker thread only');
const port = parentPort;
const start = workerData as TickerStart;

const values = new Float64Array(start.prices, 0, start.symbols.length);
const prices = new SourcedPrices({
  symbols: start.symbols,
  values,
  intervalMs: start.intervalMs,
  open: () => openPriceSource(start),
  counts: new Float64Array(start.sourceCounts),
  onProblem: (problem) => post({ topic: 'source', problem }),
});
// An error that a module throws outside a call, for example in a timer, must not end the thread.
if (isModule(start.source)) process.on('uncaughtException', (error) => prices.fail(error));
const lastDue = new Float64Array(start.lastDue);
const lease = start.lease === undefined ? undefined : new Float64Array(start.lease);
const subscriptions = new Map<Pid, Pid>(start.subscriptions);
/** Last tick as JSON text if another node made the tick. Sent to new subscribers as their snapshot. */
let relayed: string | undefined;

function post(message: TickerToMain): void {
  port.postMessage(message);
}

function frame(data: string): WsSend {
  return { topic: 'ws.send', type: 'text', data };
}

function snapshot(): string {
  return JSON.stringify({ type: 'ticker', data: prices.snapshot(Date.now()) });
}

port.on('message', (messages: MainToTicker) => {
  const joined: Pid[] = [];
  const newcomers = new Set<Pid>();
  for (const message of messages) {
    switch (message.topic) {
      case 'subscribe':
        subscriptions.set(message.handler_pid, message.client_pid);
        joined.push(message.client_pid);
        newcomers.add(message.handler_pid);
        break;
      case 'unsubscribe':
        subscriptions.delete(message.handler_pid);
        newcomers.delete(message.handler_pid);
        break;
      case 'tick':
        prices.pause();
        relayed = message.data;
        // Skips the broadcast if all subscribers are new, because new subscribers receive the tick as their snapshot.
        if (subscriptions.size > newcomers.size) post({ to: SUBSCRIBERS, message: frame(relayed), due: message.due });
    }
  }
  if (joined.length > 0) post({ to: joined, message: frame(relayed ?? snapshot()) });
});

function mayTick(): boolean {
  return lease === undefined || (lease[0] as number) >= Number(process.hrtime.bigint()) / 1e6;
}

function tick(due: number): void {
  if (!mayTick()) return;
  lastDue[0] = due;
  relayed = undefined;
  // `snapshot` updates the prices that depend on the time, so it must run before `values` is copied.
  const message = frame(snapshot());
  post({ to: SUBSCRIBERS, message, due, prices: [...values] });
}

startSchedule(start.intervalMs, (due) => {
  if (!mayTick()) {
    prices.pause();
    return;
  }
  const updated = prices.step(due);
  if (updated === undefined) tick(due);
  else void updated.then(() => tick(due));
});

const heartbeat = new Int32Array(start.heartbeat);
const delays = new Histogram(start.delays.bounds, start.delays.cells);
let lastHeartbeat = performance.now();
setInterval(() => {
  const now = performance.now();
  delays.observe(Math.max(0, now - lastHeartbeat - HEARTBEAT_INTERVAL_MS) / 1000);
  lastHeartbeat = now;
  Atomics.add(heartbeat, 0, 1);
}, HEARTBEAT_INTERVAL_MS).unref();
// Sent before the price source is called, because a hang is detected only after the first heartbeat.
Atomics.add(heartbeat, 0, 1);

post({ topic: 'ready' });
