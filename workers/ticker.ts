/**
 * Worker thread of the ticker. It keeps the subscriptions, changes the prices on schedule, with or without subscribers, and posts
 * one message per tick, regardless of the number of subscribers.
 */
import { parentPort, workerData } from 'node:worker_threads';
import {
  type MainToTicker,
  type Pid,
  SUBSCRIBERS,
  type TickerStart,
  type TickerToMain,
  type WsSend,
} from './messages.ts';
import { PriceWalk } from './price-walk.ts';
import { recordDuration } from './record-duration.ts';
import { SeededPrices } from './seeded-prices.ts';
import { symbols } from './symbols.ts';
import { startSchedule } from './tick-schedule.ts';

const HEARTBEAT_INTERVAL_MS = 20;

if (parentPort === null) throw new Error('workers/ticker runs as a worker thread only');
const port = parentPort;
const start = workerData as TickerStart;

const values = new Float64Array(start.prices);
const prices =
  start.seed === undefined ? new PriceWalk(values) : new SeededPrices(values, start.seed, start.intervalMs);
const lastDue = new Float64Array(start.lastDue);
const lease = start.lease === undefined ? undefined : new Float64Array(start.lease);
const subscriptions = new Map<Pid, Pid>(start.subscriptions);
/** JSON text of the last tick if another node made it. Also sent as the snapshot, so that a client's timestamps are of one clock. */
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
  /** Handlers that subscribed in this batch of messages and have not unsubscribed since. */
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
        relayed = message.data;
        // Posts the tick for the earlier subscribers only. Newcomers receive it below, as their snapshot.
        if (subscriptions.size > newcomers.size) post({ to: SUBSCRIBERS, message: frame(relayed), due: message.due });
    }
  }
  if (joined.length > 0) post({ to: joined, message: frame(relayed ?? snapshot()) });
});

startSchedule(start.intervalMs, (due) => {
  if (lease !== undefined && (lease[0] as number) < Number(process.hrtime.bigint()) / 1e6) return;
  prices.step(due);
  lastDue[0] = due;
  relayed = undefined;
  if (lease === undefined && subscriptions.size === 0) return;
  const forOthers = lease && { prices: [...values.subarray(0, symbols.length)] };
  post({ to: SUBSCRIBERS, message: frame(snapshot()), due, ...forOthers });
});

const heartbeat = new Int32Array(start.heartbeat);
let lastHeartbeat = performance.now();
setInterval(() => {
  const now = performance.now();
  recordDuration(start.delays, 0, Math.max(0, now - lastHeartbeat - HEARTBEAT_INTERVAL_MS) / 1000);
  lastHeartbeat = now;
  Atomics.add(heartbeat, 0, 1);
}, HEARTBEAT_INTERVAL_MS).unref();

post({ topic: 'ready' });
