import { expect } from 'chai';
import { TICKER } from '../../main/ticker/connection-handler.ts';
import { systemClock } from '../../workers/shared/clock.ts';
import { defaultSymbols } from '../../workers/shared/symbols.ts';
import { seededPrices } from '../../workers/ticker/computed-prices.ts';
import { NEVER, pricesOf, Recorder, startTicker } from '../support/ticker.ts';
import { until } from '../support/until.ts';

describe('the ticker', () => {
  it('goes on from the time of the main thread, and sends the last tick as the snapshot to a new subscriber only, because a second has one price', async () => {
    const hourFast = { ...systemClock, now: () => systemClock.now() + 3_600_000 };
    const { subscribe, tickTo } = await startTicker({ clock: hourFast });
    const first = subscribe();
    const { message } = await tickTo(first.client);
    const [{ timestamp }] = JSON.parse(message.topic === 'ws.send' ? message.data : '').data;
    expect(timestamp).to.be.at.least(Date.now() / 1000 + 3_590);
    // Nothing arrives from the thread between the tick and the subscription.
    expect(await subscribe().recorder.next()).to.deep.equal(message);
    expect(first.recorder.received).to.have.lengthOf(1);
  });

  it('sends the initial prices before the first tick, or those of its seed', async () => {
    const seeded = seededPrices('x', NEVER, defaultSymbols).prices(Date.now());
    for (const [seed, expected] of [
      [undefined, [42_000, 2_500, 95]],
      ['x', [...seeded]],
    ] as const) {
      const { subscribe, ticks } = await startTicker({ intervalMs: NEVER, seed });
      const prices = pricesOf(await subscribe().recorder.next());
      expect([...prices]).to.deep.equal(defaultSymbols.map(({ symbol }, index) => [symbol, expected[index]]));
      expect(ticks).to.deep.equal([]);
    }
  });

  it('moves the prices and records them in the history even without subscribers, and broadcasts nothing then', async () => {
    const { ticker, subscribe, ticks, tickTo } = await startTicker();
    const recorded = () => ticker.history.last(900, Date.now() / 1000);
    await until(() => recorded().timestamps.length >= 2);
    expect(ticks).to.deep.equal([]);
    const { recorder, client } = subscribe();
    const snapshot = [...pricesOf(await recorder.next())];
    expect(snapshot.some(([symbol, price]) => price !== recorded().prices[symbol]?.[0])).to.equal(true);
    const { message } = await tickTo(client);
    for (const [symbol, price] of pricesOf(message)) expect(recorded().prices[symbol]?.at(-1), symbol).to.equal(price);
  });

  it('leaves out those who unsubscribe, and those whose handler ends by any cause or is gone already', async () => {
    const { subscribe, actors, tickTo, ticks } = await startTicker();
    const gone = actors.spawn('client', () => new Recorder());
    actors.send(TICKER, { topic: 'subscribe', client_pid: gone, handler_pid: 'handler:gone' });
    const [stays, leaves, ends, fails] = [subscribe(), subscribe(), subscribe(), subscribe()];
    await tickTo(...[stays, leaves, ends, fails].map(({ client }) => client));
    leaves.unsubscribe();
    await tickTo(stays.client, ends.client, fails.client);
    actors.exit(ends.handler, 'normal');
    await tickTo(stays.client, fails.client);
    actors.exit(fails.handler, new Error('x'));
    await tickTo(stays.client);
    expect(ticks.some(({ clients }) => clients.includes(gone))).to.equal(false);
  });

  it('measures the lateness of each tick, also of those that wait for a stalled main thread', async () => {
    const { ticker, subscribe, tickTo } = await startTicker({ intervalMs: 50 });
    const { client } = subscribe();
    await tickTo(client);
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 700);
    const later = () => {
      const { bounds } = ticker.lateness;
      const { count, upTo } = ticker.lateness.cumulative();
      return count - (upTo[bounds.indexOf(0.25)] as number);
    };
    await until(() => later() > 1);
  });
});
