import { mock } from 'node:test';
import { expect } from 'chai';
import type { TickFeed } from '../../main/ticker/ticker.ts';
import { startTicker, thread } from '../support/ticker.ts';
import { until } from '../support/until.ts';

/** Creates a feed that records the calls of `setLeaseWanted`. The spec sets its lease. */
function createFeed() {
  const lease = new SharedArrayBuffer(Float64Array.BYTES_PER_ELEMENT);
  const wanted: boolean[] = [];
  const feed: TickFeed = {
    lease,
    isLeader: false,
    follow() {},
    setLeaseWanted: (isWanted) => wanted.push(isWanted),
    publish: () => ({ epoch: 1, number: 1 }),
    async close() {},
  };
  return { feed, lease, wanted };
}

describe('a ticker thread without a leader', () => {
  afterEach(() => mock.timers.reset());

  it('is not taken for one that hangs', async () => {
    mock.timers.enable({ apis: ['setInterval'] });
    const { feed, lease, wanted } = createFeed();
    const { ticker, subscribe, lines, ticks } = await startTicker({ intervalMs: 10, feed });
    for (let second = 0; second < 10; second++) {
      const { count } = ticker.loopDelays.cumulative();
      await until(() => ticker.loopDelays.cumulative().count > count);
      mock.timers.tick(1_000);
    }
    expect([lines, ticks]).to.deep.equal([[], []]);
    expect(new Set(wanted)).to.deep.equal(new Set([true]));
    subscribe();
    new Float64Array(lease)[0] = Number.POSITIVE_INFINITY;
    await until(() => ticks.length > 3);
  });
});

describe('a ticker thread that hangs', () => {
  afterEach(() => mock.timers.reset());

  it('stops competing for the lease before it is terminated', async () => {
    mock.timers.enable({ apis: ['setInterval'] });
    const { feed, wanted } = createFeed();
    const { ticker, die, lines } = await startTicker({ intervalMs: 10, feed, file: thread('hangs') });
    await until(() => ticker.loopDelays.cumulative().count > 0);
    await die();
    wanted.length = 0;
    // The first check sees progress since the start; the second one sees none.
    mock.timers.tick(2_000);
    expect(wanted).to.deep.equal([true, false]);
    expect(lines).to.deep.equal([]);
  });
});
