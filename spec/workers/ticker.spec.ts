import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { expect } from 'chai';
import { workerFile } from '../../main/worker-file.ts';
import {
  type HandlerToTicker,
  type MainToTicker,
  SourceCount,
  SUBSCRIBERS,
  type TickerStart,
  type TickerToMain,
} from '../../workers/messages.ts';
import { defaultSymbols } from '../../workers/symbols.ts';
import { afterTest, temporaryFolder } from '../support/cleanup.ts';

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
  const lastDue = new SharedArrayBuffer(Float64Array.BYTES_PER_ELEMENT);
  const delays = { bounds: [0.1], cells: new SharedArrayBuffer(3 * Float64Array.BYTES_PER_ELEMENT) };
  const heartbeat = new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT);
  const memory = { prices, sourceCounts, lastDue, delays, heartbeat };
  const settings = { intervalMs: 5, symbols: defaultSymbols, seed: undefined, source: undefined, lease: undefined };
  const base = { ...settings, ...memory, subscriptions: [] };
  const workerData: TickerStart = { ...base, ...options };
  const worker = new Worker(workerFile('ticker'), { workerData });
  afterTest(() => worker.terminate());
  const received: TickerToMain[] = [];
  let asked = 0;
  let arrived = Promise.withResolvers<void>();
  worker.on('message', (message: TickerToMain) => {
    received.push(message);
    arrived.resolve();
    arrived = Promise.withResolvers();
  });
  return {
    received,
    tell: (...messages: MainToTicker) => worker.postMessage(messages satisfies MainToTicker),
    async next() {
      while (asked >= received.length) await arrived.promise;
      return received[asked++] as TickerToMain;
    },
  };
}

const subscribe = (n: number): HandlerToTicker => ({
  topic: 'subscribe',
  client_pid: `client:${n}`,
  handler_pid: `handler:${n}`,
});
const unsubscribe = (n: number): HandlerToTicker => ({ topic: 'unsubscribe', handler_pid: `handler:${n}` });

function sendOf(message: TickerToMain) {
  if ('topic' in message) throw new Error(message.topic);
  return { to: message.to, ...JSON.parse(message.message.data) };
}

describe('the thread of the ticker', () => {
  it('says that it is ready, then posts each tick with its prices, even without subscribers', async () => {
    const { next } = start();
    expect(await next()).to.deep.equal({ topic: 'ready' });
    for (let tick = 0; tick < 5; tick++) {
      const message = await next();
      const { to, data } = sendOf(message);
      expect(to).to.equal(SUBSCRIBERS);
      const prices = data.map((entry: { price: number }) => entry.price);
      expect(message).to.have.property('prices').that.deep.equals(prices);
    }
  });

  it('answers a subscription with a snapshot to its client', async () => {
    const { next, tell } = start({ intervalMs: NEVER });
    await next();
    tell(subscribe(1));
    const message = await next();
    expect(message).to.deep.include({ to: ['client:1'] });
    expect(message).to.have.nested.property('message.topic', 'ws.send');
    expect(message).to.have.nested.property('message.type', 'text');
    const { type, data } = sendOf(message);
    expect(type).to.equal('ticker');
    expect(data.map((entry: { price: number }) => entry.price)).to.deep.equal([42_000, 2_500, 95]);
  });

  it('posts one message a tick, however many are subscribed', async () => {
    const { next, tell } = start({ intervalMs: 50 });
    await next();
    for (let n = 0; n < 100; n++) tell(subscribe(n));
    const addressed = new Set<string>();
    while (addressed.size < 100) {
      const { to } = sendOf(await next());
      if (to !== SUBSCRIBERS) for (const client of to) addressed.add(client);
    }
    const later = [sendOf(await next()), sendOf(await next()), sendOf(await next())];
    expect(later.map(({ to }) => to)).to.deep.equal([SUBSCRIBERS, SUBSCRIBERS, SUBSCRIBERS]);
    expect(new Set(later.map(({ data }) => JSON.stringify(data))).size).to.equal(3);
  });

  it('answers those who come together with one snapshot for all', async () => {
    const { next, tell, received } = start({ intervalMs: NEVER });
    await next();
    tell(subscribe(1), unsubscribe(1), subscribe(2), subscribe(3));
    tell(subscribe(4));
    expect(sendOf(await next()).to).to.deep.equal(['client:1', 'client:2', 'client:3']);
    expect(sendOf(await next()).to).to.deep.equal(['client:4']);
    tell(unsubscribe(4));
    tell(subscribe(5));
    expect(sendOf(await next()).to).to.deep.equal(['client:5']);
    expect(received).to.have.lengthOf(4);
  });

  it('sends a tick of another node to a subscriber when others join and leave in the same batch', async () => {
    const { next, tell } = start({ intervalMs: NEVER });
    await next();
    tell(subscribe(1));
    await next();
    tell(subscribe(2), unsubscribe(2), { topic: 'tick', data: '{"type":"ticker","data":[]}', due: 0 });
    expect(sendOf(await next())).to.deep.include({ to: SUBSCRIBERS, data: [] });
  });

  it('goes on from prices and subscriptions that it is started with', async () => {
    const { next } = start({ prices: shared(50_000, 3_000, 100), subscriptions: [['handler:1', 'client:1']] });
    await next();
    const { to, data } = sendOf(await next());
    expect(to).to.equal(SUBSCRIBERS);
    for (const [index, from] of [50_000, 3_000, 100].entries())
      expect(data[index].price).to.be.closeTo(from, from * 0.01);
  });

  it('starts its source again after another node has made a tick', async () => {
    const source = join(await temporaryFolder(), 'source.mjs');
    await writeFile(source, 'let starts = 0; export default { start() { starts++; }, prices: () => [starts, 1, 1] };');
    const { next, tell } = start({ source, lease: shared(Number.POSITIVE_INFINITY) });
    const tickOfStart = async (count: number) => {
      for (;;) {
        const message = await next();
        if (!('topic' in message) && sendOf(message).data[0]?.price === count) return;
      }
    };
    await tickOfStart(1);
    tell({ topic: 'tick', data: '{"type":"ticker","data":[]}', due: 0 });
    await tickOfStart(2);
  });

  it('runs nowhere but in a thread', async () => {
    const error = await import('../../workers/ticker.ts').catch((reason: unknown) => reason);
    expect(error).to.be.instanceOf(Error);
    expect((error as Error).message).to.include('worker thread only');
  });
});
