import { expect } from 'chai';
import { TICKER } from '../../main/ticker/connection-handler.ts';
import { systemClock } from '../../workers/shared/clock.ts';
import { Recorder } from '../support/recorder.ts';
import { type Entry, NEVER, pricesOf, startTicker } from '../support/ticker.ts';
import { eventually, until } from '../support/until.ts';

describe('the ticker', () => {
  it('sends a snapshot to a new subscriber, and to no other client', async () => {
    const { subscribe, ticks } = await startTicker({ intervalMs: NEVER });
    const before = Math.floor(Date.now() / 1000);
    const first = subscribe();
    const snapshot = await first.recorder.next();
    if (snapshot.topic !== 'ws.send') throw new Error(snapshot.topic);
    expect(Object.keys(snapshot)).to.have.members(['topic', 'type', 'data']);
    expect(snapshot.type).to.equal('text');
    const update = JSON.parse(snapshot.data);
    expect(update).to.have.all.keys('type', 'data');
    expect(update.type).to.equal('ticker');
    const entries = update.data as Entry[];
    const initial = { 'BTC-USD': 42_000, 'ETH-USD': 2_500, 'SOL-USD': 95 };
    expect(Object.fromEntries(entries.map(({ symbol, price }) => [symbol, price]))).to.deep.equal(initial);
    for (const entry of entries) {
      expect(entry).to.have.all.keys('symbol', 'price', 'timestamp');
      expect(entry.timestamp).to.be.within(before, Date.now() / 1000 + 1);
    }
    await subscribe().recorder.next();
    expect(first.recorder.received).to.have.lengthOf(1);
    expect(ticks).to.deep.equal([]);
  });

  it('ticks to all subscribers at once, each from its snapshot on', async () => {
    const { subscribe, tickTo } = await startTicker();
    const first = subscribe();
    await tickTo(first.client);
    const second = subscribe();
    const third = subscribe();
    const { message } = await tickTo(first.client, second.client, third.client);
    expect([...pricesOf(message).keys()]).to.have.members(['BTC-USD', 'ETH-USD', 'SOL-USD']);
    for (const { recorder } of [first, second, third]) expect(recorder.received).to.have.lengthOf(1);
  });

  it('sends the last tick as the snapshot, because a second has one price', async () => {
    const hourFast = { ...systemClock, now: () => systemClock.now() + 3_600_000 };
    const { subscribe, tickTo } = await startTicker({ clock: hourFast });
    const { message } = await tickTo(subscribe().client);
    // Nothing arrives from the thread between the tick and the subscription.
    expect(await subscribe().recorder.next()).to.deep.equal(message);
  });

  it('sends each tick to a subscriber only after its snapshot', async () => {
    const order: string[] = [];
    const { subscribe, actors, tickTo } = await startTicker({ intervalMs: 1 });
    const handler = actors.spawn('handler', () => new Recorder());
    const client = actors.spawn('client', () => ({ receive: () => order.push('snapshot') }));
    const other = subscribe();
    await tickTo(other.client);
    actors.send(TICKER, { topic: 'subscribe', client_pid: client, handler_pid: handler });
    await tickTo(other.client, client);
    expect(order).to.deep.equal(['snapshot']);
  });

  it('records every tick in the history, and broadcasts none without a subscriber', async () => {
    const { ticker, subscribe, ticks, tickTo } = await startTicker();
    const recorded = () => ticker.history.last(900, Date.now() / 1000);
    await until(() => recorded().timestamps.length === 2);
    expect(ticks).to.deep.equal([]);
    const { client } = subscribe();
    const { message } = await tickTo(client);
    const { interval_ms, timestamps, prices } = recorded();
    expect(interval_ms).to.equal(10);
    const { timestamp } = JSON.parse(message.topic === 'ws.send' ? message.data : '').data[0];
    expect(timestamps.at(-1)).to.equal(timestamp);
    for (const [symbol, price] of pricesOf(message)) expect(prices[symbol]?.at(-1), symbol).to.equal(price);
  });

  it('moves the prices even without subscribers', async () => {
    const { subscribe } = await startTicker({ intervalMs: 1 });
    const prices = async () => {
      const { recorder, unsubscribe } = subscribe();
      const snapshot = pricesOf(await recorder.next());
      unsubscribe();
      return snapshot;
    };
    const first = await prices();
    const later = await eventually(prices, (found) =>
      [...first].every(([symbol, price]) => found.get(symbol) !== price),
    );
    expect([...later.keys()]).to.deep.equal([...first.keys()]);
  });

  it('leaves out those who unsubscribe, and those whose handler ends by any cause', async () => {
    const { subscribe, actors, tickTo } = await startTicker();
    const [stays, leaves, ends, fails] = [subscribe(), subscribe(), subscribe(), subscribe()];
    await tickTo(...[stays, leaves, ends, fails].map(({ client }) => client));
    leaves.unsubscribe();
    await tickTo(stays.client, ends.client, fails.client);
    actors.exit(ends.handler, 'normal');
    await tickTo(stays.client, fails.client);
    actors.exit(fails.handler, new Error('x'));
    await tickTo(stays.client);
  });

  it('ignores a subscription whose handler is gone', async () => {
    const { subscribe, actors, tickTo, ticks } = await startTicker();
    const gone = actors.spawn('client', () => new Recorder());
    actors.send(TICKER, { topic: 'subscribe', client_pid: gone, handler_pid: 'handler:gone' });
    const { client } = subscribe();
    await tickTo(client);
    expect(ticks.some(({ clients }) => clients.includes(gone))).to.equal(false);
  });

  it('takes a second subscription of one handler for the first', async () => {
    const { subscribe, actors, tickTo } = await startTicker();
    const { handler, client, recorder, unsubscribe } = subscribe();
    actors.send(TICKER, { topic: 'subscribe', client_pid: client, handler_pid: handler });
    const other = subscribe();
    await tickTo(client, other.client);
    expect(recorder.received).to.have.lengthOf(1);
    unsubscribe();
    unsubscribe();
    await tickTo(other.client);
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

  it('takes no notice of other messages', async () => {
    const { actors, subscribe } = await startTicker({ intervalMs: NEVER });
    actors.send(TICKER, { topic: 'ws.leave', reason: '' });
    actors.send(TICKER, { topic: 'ws.send', type: 'text', data: '{}' });
    await subscribe().recorder.next();
    expect(actors.size).to.equal(3);
  });
});
