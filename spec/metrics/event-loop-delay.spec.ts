import { expect } from 'chai';
import { recordLoopDelay } from '../../main/metrics/event-loop-delay.ts';
import { afterTest } from '../support/cleanup.ts';
import { until } from '../support/until.ts';

describe('the delay of the event loop', () => {
  it('is recorded while the loop turns, and includes a turn that took long', async () => {
    const { delays, stop } = recordLoopDelay();
    afterTest(stop);
    await until(() => delays.cumulative().count >= 3);
    const before = delays.cumulative();
    for (const end = performance.now() + 150; performance.now() < end; );
    await until(() => delays.cumulative().count > before.count);
    expect(delays.cumulative().sum - before.sum).to.be.at.least(0.1);
  });

  it('is not recorded after a stop', async () => {
    const { delays, stop } = recordLoopDelay();
    stop();
    const other = recordLoopDelay();
    afterTest(other.stop);
    await until(() => other.delays.cumulative().count >= 3);
    expect(delays.cumulative().count).to.equal(0);
  });
});
