import { on } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { expect } from 'chai';
import { threadFile } from '../../../main/threads/supervised-thread.ts';
import { DELAY_BOUNDS, Histogram } from '../../../workers/shared/histogram.ts';
import { defaultSymbols } from '../../../workers/shared/symbols.ts';
import { seededPrices } from '../../../workers/ticker/computed-prices.ts';
import { SourceCount, type TickerStart, type TickerToMain } from '../../../workers/ticker/messages.ts';
import { afterTest, temporaryFolder } from '../../support/cleanup.ts';
import { NEVER } from '../../support/ticker.ts';

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
  const chosen = { seed: undefined, source: undefined, lease: undefined };
  const settings = { intervalMs: 5, symbols: defaultSymbols, now: Date.now(), ...chosen };
  const workerData: TickerStart = { ...settings, ...memory, ...options };
  const worker = new Worker(threadFile('ticker/ticker'), { workerData });
  afterTest(() => worker.terminate());
  return {
    lastDue: new Float64Array(lastDue),
    /** Waits for the next message that fits. */
    async untilMessage(fits: (message: TickerToMain) => boolean): Promise<void> {
      for await (const [message] of on(worker, 'message')) if (fits(message)) return;
    },
  };
}

describe('the thread of the ticker', () => {
  it('has the prices of its seed before its first tick', async () => {
    const prices = shared(0, 0, 0);
    const { untilMessage } = start({ intervalMs: NEVER, seed: 'x', prices });
    await untilMessage(({ topic }) => topic === 'ready');
    const expected = seededPrices('x', NEVER, defaultSymbols).prices(Date.now());
    expect([...new Float64Array(prices)]).to.deep.equal([...expected]);
  });

  it('goes on from the time of the main thread, which may be ahead', async () => {
    const now = Date.now() + 60_000;
    const { untilMessage } = start({ now });
    await untilMessage((message) => message.topic === 'tick' && message.due >= now);
  });

  it('starts its source again after another node has made a tick', async () => {
    const source = join(await temporaryFolder(), 'source.mjs');
    await writeFile(source, 'let starts = 0; export default { start() { starts++; }, prices: () => [starts, 1, 1] };');
    const { untilMessage, lastDue } = start({ source, lease: shared(Number.POSITIVE_INFINITY) });
    const untilStart = (count: number) =>
      untilMessage((message) => message.topic === 'tick' && message.prices[0] === count);
    await untilStart(1);
    lastDue[0] = 1;
    await untilStart(2);
  });
});
