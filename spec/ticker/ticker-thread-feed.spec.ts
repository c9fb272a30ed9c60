import { mock } from 'node:test';
import { expect } from 'chai';
import type { TickFeed } from '../../main/ticker/tick-feed.ts';
import { startTicker } from '../support/ticker-thread.ts';
import { until } from '../support/until.ts';

describe('a ticker thread that hears no producer', () => {
  afterEach(() => mock.timers.reset());

  it('is not taken for one that hangs', async () => {
    mock.timers.enable({ apis: ['setInterval'] });
    const lease = new SharedArrayBuffer(Float64Array.BYTES_PER_ELEMENT);
    const said: boolean[] = [];
    const feed: TickFeed = {
      lease,
      leads: false,
      follow() {},
      compete: (able) => said.push(able),
      publish: () => true,
      async close() {},
    };
    const { ticker, lines, ticks } = await startTicker({ intervalMs: 10, feed });
    for (let second = 0; second < 10; second++) {
      const { count } = ticker.loopDelays.cumulative();
      await until(() => ticker.loopDelays.cumulative().count > count);
      mock.timers.tick(1_000);
    }
    expect([lines, ticks]).to.deep.equal([[], []]);
    expect(said).to.not.include(false);
    new Float64Array(lease)[0] = Number.POSITIVE_INFINITY;
    await until(() => ticks.length > 3);
  });
});
