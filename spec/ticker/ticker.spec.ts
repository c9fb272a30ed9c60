import { mock } from 'node:test';
import { expect } from 'chai';
import { TICKER } from '../../main/ticker/connection-handler.ts';
import type { Ticker } from '../../main/ticker/ticker.ts';
import { systemClock } from '../../workers/shared/clock.ts';
import { defaultSymbols } from '../../workers/shared/symbols.ts';
import { seededPrices } from '../../workers/ticker/computed-prices.ts';
import { createTicker, fakeFeed, mortal, NEVER, pricesOf, Recorder, startTicker } from '../support/ticker.ts';
import { until } from '../support/until.ts';

const anHourAhead = () => systemClock.now() + 3_600_000;

describe('the ticker', () => {
  it('goes on from the time of the main thread, and sends the last tick as the snapshot to a new subscriber only, because a second has one price', async () => {
    const { actors, subscribe, tickTo } = await startTicker({ clock: { ...systemClock, now: anHourAhead } });
    const first = subscribe();
    actors.send(TICKER, { topic: 'subscribe', client_pid: first.client, handler_pid: first.handler });
    const { message } = await tickTo(first.client);
    const [{ timestamp }] = JSON.parse(message.topic === 'ws.send' ? message.data : '').data;
    expect(timestamp).to.be.at.least(Date.now() / 1000 + 3_590);
    // Nothing arrives from the thread between the tick and the subscription.
    expect(await subscribe().recorder.next()).to.deep.equal(message);
    expect(first.recorder.received).to.have.lengthOf(1);
  });

  it('sends the initial prices before the first tick, or those of its seed', async () => {
    for (const [seed, expected] of [
      [undefined, [42_000, 2_500, 95]],
      ['x', [...seededPrices('x', NEVER, defaultSymbols).prices(Date.now())]],
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

  it('measures the lateness of each tick, also of those that wait for a stalled main thread, and none if its clock is behind', async () => {
    const clock = { ...systemClock };
    const { ticker, subscribe, tickTo } = await startTicker({ intervalMs: 50, clock });
    const { lateness } = ticker;
    const { client } = subscribe();
    await tickTo(client);
    await until(() => {
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 400);
      const { count, upTo } = lateness.cumulative();
      return count - (upTo[lateness.bounds.indexOf(0.25)] as number) > 1;
    });
    const { sum } = lateness.cumulative();
    clock.now = () => 0;
    await tickTo(client);
    expect(lateness.cumulative().sum).to.equal(sum);
  });
});

/** Waits for a heartbeat of the thread, which follows each measurement of the delay of its event loop. */
async function heartbeat({ loopDelays }: Pick<Ticker, 'loopDelays'>): Promise<void> {
  const { count } = loopDelays.cumulative();
  await until(() => loopDelays.cumulative().count > count + 1);
}

describe('a ticker thread', () => {
  it('that dies leaves its clients and those that subscribe meanwhile to the next one, with no second snapshot, but none that unsubscribe; the next one goes on from the present time', async () => {
    const { feed, calls, grantLease } = fakeFeed();
    grantLease();
    const clock = { ...systemClock };
    const { ticker, subscribe, tickTo, endThread, logged, ticks } = await startTicker({ file: mortal, feed, clock });
    const [stays, leaves] = [subscribe(), subscribe()];
    await tickTo(stays.client, leaves.client);
    clock.now = anHourAhead;
    await endThread('die');
    const unseen = subscribe();
    await logged(({ msg }) => msg.startsWith('the ticker thread ended'));
    expect(calls.at(-1), 'whether the lease is wanted').to.equal(false);
    leaves.unsubscribe();
    const late = subscribe();
    ticks.length = 0;
    await tickTo(stays.client, unseen.client, late.client);
    expect(ticker.lastDue).to.be.at.least(Date.now() + 3_590_000);
    for (const { recorder } of [stays, unseen, late]) expect(recorder.received).to.have.lengthOf(1);
    expect(ticks.some(({ clients }) => clients.includes(leaves.client))).to.equal(false);
  });

  it('that dies before it is ready is no start', async () => {
    for (const code of ['process.exit()', 'import "./missing.js"', 'throw new Error("never loads")']) {
      const { ticker, logged } = createTicker({ file: new URL(`data:text/javascript,${code}`) });
      expect(await ticker.start().catch(({ message }) => message)).to.equal('the ticker thread does not start');
      if (code.startsWith('throw')) {
        const failure = await logged(({ msg }) => msg === 'the ticker thread failed');
        expect(failure.err).to.include({ message: 'never loads' });
      }
      await ticker.stop();
    }
  });

  it('that hangs is terminated and replaced by one that ticks for those who are subscribed then', async () => {
    mock.timers.enable({ apis: ['setInterval'] });
    const { feed, calls, grantLease } = fakeFeed();
    grantLease();
    const { ticker, subscribe, endThread, lines, logged, tickTo } = await startTicker({ file: mortal, feed });
    await until(() => ticker.loopDelays.cumulative().count > 1);
    await endThread('hang');
    const [stays, leaves] = [subscribe(), subscribe()];
    leaves.unsubscribe();
    // The first check sees a heartbeat since the start.
    mock.timers.tick(4_000);
    expect([lines, calls.at(-1)], 'lines, and whether the lease is wanted').to.deep.equal([[], false]);
    mock.timers.tick(1_000);
    expect(lines.at(0)?.msg).to.equal('the ticker thread hangs: it is terminated');
    await logged(({ msg }) => msg.startsWith('the ticker thread ended'));
    await tickTo(stays.client, subscribe().client);
  });

  it('that hangs is not confused with a thread whose heartbeats are seen late', async () => {
    mock.timers.enable({ apis: ['setInterval'] });
    const { ticker, lines } = await startTicker({ intervalMs: 20 });
    for (let round = 0; round < 5; round++) {
      await heartbeat(ticker);
      // Three checks in a row, of which only the first sees a new heartbeat.
      mock.timers.tick(3000);
    }
    await heartbeat(ticker);
    expect(lines).to.deep.equal([]);
  });

  it('that hangs is not confused with one that has no leader', async () => {
    mock.timers.enable({ apis: ['setInterval'] });
    const { feed, calls, grantLease } = fakeFeed();
    const { ticker, subscribe, lines, ticks } = await startTicker({ feed });
    for (let second = 0; second < 10; second++) {
      await heartbeat(ticker);
      mock.timers.tick(1_000);
    }
    expect([lines, ticks, new Set(calls)]).to.deep.equal([[], [], new Set([true])]);
    const { mock: publish } = mock.method(feed, 'publish', () => undefined);
    subscribe();
    grantLease();
    await until(() => publish.callCount() > 3);
    expect([ticks, ticker.history.size], 'ticks that cannot be published').to.deep.equal([[], 0]);
    publish.restore();
    await until(() => ticks.length > 3);
  });
});

describe('a ticker that is stopped', () => {
  it('ticks no more, releases the lease, and does not start if it is still starting', async () => {
    mock.timers.enable({ apis: ['setInterval'] });
    const { feed, calls, grantLease } = fakeFeed();
    grantLease();
    const { ticker, subscribe, tickTo, ticks, lines } = await startTicker({ intervalMs: 1, feed });
    await tickTo(subscribe().client);
    await heartbeat(ticker);
    const stopped = ticker.stop().then(() => calls.push('stopped'));
    mock.timers.tick(1_000);
    await new Promise(process.nextTick);
    expect(calls.at(-1), 'while the thread ends, after a heartbeat').to.equal(false);
    await stopped;
    const count = ticks.length;
    subscribe().unsubscribe();
    await ticker.stop();
    const other = createTicker();
    const started = other.ticker.start().catch((error: unknown) => error);
    await other.ticker.stop();
    expect(await started).to.be.instanceOf(Error);
    expect([ticks.length, lines]).to.deep.equal([count, []]);
  });

  it('while its thread is dead does not come back', async () => {
    mock.timers.enable({ apis: ['setTimeout'] });
    const { ticker, endThread, logged } = await startTicker({ file: mortal });
    await endThread('die');
    await logged(({ msg }) => msg.startsWith('the ticker thread ended'));
    await ticker.stop();
    mock.timers.tick(60_000);
    await until(() => !process.getActiveResourcesInfo().includes('MessagePort'));
  });
});
