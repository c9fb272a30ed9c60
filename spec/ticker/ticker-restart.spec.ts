import { mock } from 'node:test';
import { expect } from 'chai';
import type { Ticker, TickFeed } from '../../main/ticker/ticker.ts';
import { createTicker, NEVER, pricesOf, startTicker, thread } from '../support/ticker.ts';
import { until } from '../support/until.ts';

describe('a ticker thread that dies', () => {
  it('is replaced by one that goes on from its last prices', async () => {
    const { subscribe, die, logged } = await startTicker({ file: thread('mortal'), intervalMs: NEVER });
    expect(pricesOf(await subscribe().recorder.next()).get('BTC-USD')).to.equal(42_000);
    await die();
    const line = await logged(({ msg }) => msg.startsWith('the ticker thread ended'));
    expect(line).to.include({ level: 50, code: 7, delayMs: 0 });
    await until(async () => [...pricesOf(await subscribe().recorder.next()).values()].join() === '50000,2500,95');
  });

  it('leaves its clients and those that subscribe meanwhile to the next one, with no second snapshot, but none that unsubscribe', async () => {
    const { subscribe, tickTo, die, logged, ticks } = await startTicker({ file: thread('mortal') });
    const [stays, leaves] = [subscribe(), subscribe()];
    await tickTo(stays.client, leaves.client);
    await die();
    const unseen = subscribe();
    await logged(({ msg }) => msg.startsWith('the ticker thread ended'));
    leaves.unsubscribe();
    const late = subscribe();
    ticks.length = 0;
    await tickTo(stays.client, unseen.client, late.client);
    for (const { recorder } of [stays, unseen, late]) expect(recorder.received).to.have.lengthOf(1);
    expect(ticks.some(({ clients }) => clients.includes(leaves.client))).to.equal(false);
  });

  it('before it is ready is no start, and is restarted with growing delays', async () => {
    for (const file of ['exits', 'missing', 'fails'] as const) {
      const { ticker, logged, lines } = createTicker({ file: thread(file) });
      expect(await ticker.start().catch(({ message }) => message)).to.equal('the ticker thread does not start');
      if (file === 'fails') {
        await logged(({ delayMs }) => delayMs === 500);
        const delays = lines.flatMap(({ delayMs }) => (delayMs === undefined ? [] : [delayMs]));
        expect(delays).to.deep.equal([0, 100, 500]);
        const failure = lines.find(({ msg }) => msg === 'the ticker thread failed');
        expect(failure?.err).to.include({ message: 'this thread never loads' });
      }
      await ticker.stop();
    }
  });
});

/** Waits for a heartbeat of the thread, which follows each measurement of the delay of its event loop. */
async function heartbeat({ loopDelays }: Pick<Ticker, 'loopDelays'>): Promise<void> {
  const { count } = loopDelays.cumulative();
  await until(() => loopDelays.cumulative().count > count + 1);
}

describe('a ticker thread that hangs', () => {
  for (const subscribed of [true, false]) {
    it(`is terminated and replaced, ${subscribed ? 'with' : 'without'} subscribers`, async () => {
      mock.timers.enable({ apis: ['setInterval'] });
      const { ticker, subscribe, die, lines, logged, tickTo } = await startTicker({ file: thread('hangs') });
      await until(() => ticker.loopDelays.cumulative().count > 1);
      await die();
      const last = subscribe();
      await last.recorder.next();
      if (!subscribed) last.unsubscribe();
      // The first check sees a heartbeat since the start.
      mock.timers.tick(4_000);
      expect(lines).to.deep.equal([]);
      mock.timers.tick(1_000);
      expect(lines.at(0)?.msg).to.equal('the ticker thread hangs: it is terminated');
      await logged(({ msg }) => msg.startsWith('the ticker thread ended'));
      const late = subscribe();
      await late.recorder.next();
      await tickTo(...(subscribed ? [last.client] : []), late.client);
    });
  }

  it('is not confused with a thread whose heartbeats are seen late', async () => {
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

  it('is not confused with one that has no leader', async () => {
    mock.timers.enable({ apis: ['setInterval'] });
    const lease = new SharedArrayBuffer(Float64Array.BYTES_PER_ELEMENT);
    const wanted = new Set<boolean>();
    const feed: TickFeed = {
      ...{ lease, isLeader: false, follow() {}, publish: () => ({ epoch: 1, number: 1 }), async close() {} },
      setLeaseWanted: (isWanted) => wanted.add(isWanted),
    };
    const { ticker, subscribe, lines, ticks } = await startTicker({ intervalMs: 10, feed });
    for (let second = 0; second < 10; second++) {
      await heartbeat(ticker);
      mock.timers.tick(1_000);
    }
    expect([lines, ticks]).to.deep.equal([[], []]);
    expect([...wanted]).to.deep.equal([true]);
    subscribe();
    new Float64Array(lease)[0] = Number.POSITIVE_INFINITY;
    await until(() => ticks.length > 3);
  });
});

describe('a ticker that is stopped', () => {
  it('ticks no more, and does not start if it is still starting', async () => {
    const { ticker, subscribe, tickTo, ticks, lines } = await startTicker({ intervalMs: 1 });
    await tickTo(subscribe().client);
    await ticker.stop();
    const count = ticks.length;
    subscribe().unsubscribe();
    await ticker.stop();
    const other = createTicker();
    const started = other.ticker.start().catch((error: unknown) => error);
    await other.ticker.stop();
    expect(await started).to.be.instanceOf(Error);
    expect(ticks).to.have.lengthOf(count);
    expect(lines).to.deep.equal([]);
  });

  it('while its thread is dead does not come back', async () => {
    mock.timers.enable({ apis: ['setTimeout'] });
    const { ticker, die, logged } = await startTicker({ file: thread('mortal') });
    await die();
    await logged(({ msg }) => msg.startsWith('the ticker thread ended'));
    await ticker.stop();
    mock.timers.tick(60_000);
    await until(() => !process.getActiveResourcesInfo().includes('MessagePort'));
  });
});
