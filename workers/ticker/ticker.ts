/** Worker thread of the ticker. Makes the ticks, so that a busy main thread delays only their delivery. */
import { parentPort, workerData } from 'node:worker_threads';
import { systemClock as clock, continueFrom, startSchedule } from '../shared/clock.ts';
import { recordLoopDelay } from '../shared/histogram.ts';
import type { TickerStart, TickerToMain } from './messages.ts';
import { isModule, openPriceSource } from './open-price-source.ts';
import { sourcedPrices } from './sourced-prices.ts';

if (parentPort === null) throw new Error('workers/ticker runs as a worker thread only');
const port = parentPort;
const start = workerData as TickerStart;
continueFrom(start.now);

const values = new Float64Array(start.prices, 0, start.symbols.length);
const prices = sourcedPrices({
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
/** Due time of this thread's last tick. `lastDue` differs if another node has made a tick since. */
let tickedAt = lastDue[0] as number;

function post(message: TickerToMain): void {
  port.postMessage(message);
}

function mayTick(): boolean {
  return lease === undefined || (lease[0] as number) >= Number(process.hrtime.bigint()) / 1e6;
}

startSchedule(clock, start.intervalMs, async (due) => {
  if (!mayTick() || lastDue[0] !== tickedAt) prices.pause();
  if (!mayTick()) return;
  await prices.step(due);
  // The lease may have expired meanwhile.
  if (!mayTick()) return;
  lastDue[0] = tickedAt = due;
  post({ topic: 'tick', prices: [...values], timestamp: Math.floor(clock.now() / 1000), due });
});

const heartbeat = new Int32Array(start.heartbeat);
recordLoopDelay(start.delays, () => Atomics.add(heartbeat, 0, 1));
// Sent before the price source is called, because a hang is detected only after the first heartbeat.
Atomics.add(heartbeat, 0, 1);

// With a seed, computes the present prices first, so that the snapshot before the first tick has them.
if (start.seed !== undefined) await prices.step(clock.now());
else void prices.open();
post({ topic: 'ready' });
