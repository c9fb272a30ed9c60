import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { expect } from 'chai';
import { threadFile } from '../../../main/threads/thread-file.ts';
import { DELAY_BOUNDS, Histogram } from '../../../workers/shared/histogram.ts';
import { defaultSymbols } from '../../../workers/shared/symbols.ts';
import { SeededPrices } from '../../../workers/ticker/computed-prices.ts';
import { SourceCount, type TickerStart, type TickerToMain } from '../../../workers/ticker/messages.ts';
import { afterTest, temporaryFolder } from '../../support/cleanup.ts';

/** An interval in milliseconds whose next tick is weeks away. */
const NEVER = 2 ** 31 - 1;

/** Returns shared memory that contains numbers. */
function shared(...numbers: number[]): SharedArrayBuffer {
  const memory = new SharedArrayBuffer(numbers.length * Float64Array.BYTES_PER_ELEMENT);
  new Float64Array(memory).set(numbers);
  return memory;
}

function start(options: Partial<TickerStart> = {}) {
  const prices = shared(42_000, 2_500, 95);
  const sourceCounts = new SharedArrayBuffer(SourceCount.count * Float64Array.BYTES_PER_ELEMENT);
  const lastDue = shared(0);
  const delays = new SharedArrayBuffer(Histogram.bytes(DELAY_BOUNDS));
  const heartbeat = new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT);
  const memory = { prices, sourceCounts, lastDue, delays, heartbeat };
  const settings = { intervalMs: 5, symbols: defaultSymbols, seed: undefined, source: undefined, lease: undefined };
  const workerData: TickerStart = { threadId: 'id', ...settings, ...memory, ...options };
  const worker = new Worker(threadFile('ticker/ticker'), { workerData });
  afterTest(() => worker.terminate());
  const received: TickerToMain[] = [];
  let asked = 0;
  let arrived = Promise.withResolvers<void>();
  worker.on('message', (message: TickerToMain) => {
    received.push(message);
    arrived.resolve();
    arrived = Promise.withResolvers();
  });
  async function next() {
    while (asked >= received.length) await arrived.promise;
    return received[asked++] as TickerToMain;
  }
  return {
    next,
    lastDue: new Float64Array(lastDue),
    async nextTick() {
      const message = await next();
      if (message.topic !== 'tick') throw new Error(message.topic);
      return message;
    },
  };
}

describe('the thread of the ticker', () => {
  it('says that it is ready, then posts each tick with the prices that follow those of its start', async () => {
    const { next, nextTick, lastDue } = start({ prices: shared(50_000, 3_000, 100) });
    expect(await next()).to.deep.equal({ threadId: 'id', topic: 'ready' });
    const { threadId, prices, timestamp, due } = await nextTick();
    expect(threadId).to.equal('id');
    for (const [index, from] of [50_000, 3_000, 100].entries()) expect(prices[index]).to.be.closeTo(from, from * 0.01);
    expect(timestamp).to.equal(Math.floor(due / 1000));
    expect([due % 5, due <= (lastDue[0] as number)]).to.deep.equal([0, true]);
  });

  it('has the prices of its seed before its first tick', async () => {
    const prices = shared(0, 0, 0);
    const { next } = start({ intervalMs: NEVER, seed: 'x', prices });
    await next();
    expect([...new Float64Array(prices)]).to.deep.equal([
      ...new SeededPrices('x', NEVER, defaultSymbols).prices(Date.now()),
    ]);
  });

  it('starts its source again after another node has made a tick', async () => {
    const source = join(await temporaryFolder(), 'source.mjs');
    await writeFile(source, 'let starts = 0; export default { start() { starts++; }, prices: () => [starts, 1, 1] };');
    const { next, nextTick, lastDue } = start({ source, lease: shared(Number.POSITIVE_INFINITY) });
    await next();
    const tickOfStart = async (count: number) => {
      while ((await nextTick()).prices[0] !== count);
    };
    await tickOfStart(1);
    lastDue[0] = 1;
    await tickOfStart(2);
  });

  it('runs nowhere but in a thread', async () => {
    const error = await import('../../../workers/ticker/ticker.ts').catch((reason: unknown) => reason);
    expect(error).to.be.instanceOf(Error);
    expect((error as Error).message).to.include('worker thread only');
  });
});
