import { expect } from 'chai';
import { type Tick, TickerClient } from '../../www/client.ts';
import { afterTest, onceForSuite, temporaryFolder } from '../support/cleanup.ts';
import { startServices } from '../support/program.ts';
import { severable } from '../support/severable.ts';
import { until } from '../support/until.ts';

function clientOf(url: string, apiKey: string): TickerClient {
  const client = new TickerClient(url, { apiKey });
  afterTest(() => client.close());
  return client;
}

async function next(ticks: AsyncIterator<Tick>): Promise<Tick> {
  return (await ticks.next()).value;
}

async function readUntil(ticks: AsyncIterator<Tick>, isLast: (tick: Tick) => boolean): Promise<Tick[]> {
  const read = [await next(ticks)];
  while (!isLast(read.at(-1) as Tick)) read.push(await next(ticks));
  return read;
}

const numbersFrom = (first: number, count: number) => Array.from({ length: count }, (_, index) => first + index);

describe('the ticks of the client', () => {
  const running = onceForSuite(() => startServices({ env: { TICK_INTERVAL_MS: '20' } }));

  /** Follows the service without a fault. */
  function witness() {
    const client = clientOf(running().ticker, running().apiKey);
    const ticks = new Map<number, Tick>();
    client.on('tick', (tick) => ticks.set(tick.seq, tick));
    return ticks;
  }

  it('have no hole after a cut of more than sixty ticks, each with the prices of its time', async () => {
    const truth = witness();
    await until(() => truth.size > 0);
    const network = await severable(running().ticker);
    const client = clientOf(network.url, running().apiKey);
    const heard: number[] = [];
    client.on('tick', ({ seq }) => heard.push(seq));
    const ticks = client.ticks({ symbols: ['ETH-USD'] });
    const first = await next(ticks);
    const slow = client.prices();
    await slow.next();
    network.cut();
    const { size } = truth;
    await until(() => truth.size > size + 60);
    network.mend();
    client.wake();
    const end = [...truth.keys()].at(-1) ?? 0;
    const read = [first, ...(await readUntil(ticks, ({ seq }) => seq >= end))];
    expect(read.map(({ seq }) => seq)).to.deep.equal(numbersFrom(first.seq, read.length));
    await until(() => truth.has(first.seq + read.length - 1));
    for (const { seq, prices, missed } of read) {
      expect(missed).to.equal(0);
      expect(prices).to.deep.equal(truth.get(seq)?.prices.filter(({ symbol }) => symbol === 'ETH-USD'));
    }
    expect(heard.slice(0, read.length)).to.deep.equal(numbersFrom(heard[0] ?? 0, read.length));
    const newest = [...truth.keys()].at(-1) ?? 0;
    expect((await slow.next()).value).to.deep.equal(truth.get(newest)?.prices);
  });

  it('tell a slow reader how many it has missed before the newest one', async () => {
    const truth = witness();
    const client = clientOf(running().ticker, running().apiKey);
    const ticks = client.ticks();
    const [first, second] = [await next(ticks), await next(ticks)];
    expect(second.seq).to.equal(first.seq + 1);
    await until(() => truth.has(second.seq + 30));
    const third = await next(ticks);
    expect(third.missed).to.equal(third.seq - second.seq - 1);
    expect(third.missed).to.be.above(20);
    expect(await next(ticks)).to.include({ missed: 0 });
  });

  for (const [how, seed, signal] of [
    ['killed', undefined, 'SIGKILL'],
    ['stopped, with a seed', 'x', 'SIGTERM'],
  ] as const) {
    it(`continue with a new token and tell what an outage has cost after the service was ${how}, and restarted`, async () => {
      const DATA_DIR = await temporaryFolder();
      const env = { DATA_DIR, TICK_INTERVAL_MS: '20', ...(seed && { TICKER_SEED: seed }) };
      const before = await startServices({ env });
      const client = clientOf(before.ticker, before.apiKey);
      const read: Tick[] = [];
      client.on('tick', (tick) => read.push(tick));
      const states: string[] = [];
      client.on('status', ({ state }) => states.push(state));
      await until(() => read.length > 1);
      before.child.kill(signal);
      await before.exited;
      await until(() => client.status.state === 'offline');
      const { length } = read;
      await startServices({ env: { ...env, TICKER_PORT: new URL(before.ticker).port } });
      client.wake();
      await until(() => read.length > length + 1);
      const [last, first, second] = read.slice(length - 1) as [Tick, Tick, Tick];
      if (seed === undefined) {
        expect(first.epoch).to.be.above(last.epoch);
        expect(first).to.include({ seq: 0, missed: Number.POSITIVE_INFINITY });
      } else {
        // Seeded ticks are numbered by the time.
        expect(first).to.include({ epoch: last.epoch, missed: first.seq - last.seq - 1 });
      }
      expect(second).to.include({ epoch: first.epoch, missed: second.seq - first.seq - 1 });
      expect(states.join(' ')).to.match(/^live offline connecting( offline connecting)* live$/);
    });
  }
});
