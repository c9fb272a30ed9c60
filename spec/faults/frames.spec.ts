import { expect } from 'chai';
import fc from 'fast-check';
import { gather } from '../support/crowd.ts';
import { attack, attacks } from '../support/hostile.ts';
import { seed, seedNote } from '../support/seed.ts';
import { startTickerBundle } from '../support/ticker-bundle.ts';
import { until } from '../support/until.ts';

const NEIGHBOURS = 5;
const RUNS = 40;

describe('clients that send broken frames', () => {
  it(`are seen by no neighbour, and leave nothing behind, wherever they are cut off ${seedNote}`, async () => {
    const bundle = await startTickerBundle({ intervalMs: 20 });
    const [token, { port }] = [await bundle.token(), bundle.listener];
    const crowd = await gather({ port, token, readers: NEIGHBOURS });
    const several = fc.array(attacks, { minLength: 1, maxLength: 8 });
    const run = fc.asyncProperty(several, async (group) => {
      await Promise.all(group.map((each) => attack(port, token, each)));
    });
    await fc.assert(run, { seed, numRuns: RUNS });
    await until(() => bundle.sockets.size === NEIGHBOURS);
    const report = await crowd.report();
    expect(report).to.deep.include({ open: NEIGHBOURS, lacking: 0, missed: 0, closed: {} });
    expect(Object.keys(report.types)).to.have.members(['welcome', 'ticker']);
    expect(report.timestamps).to.not.have.length(0);
    const { relay, actors } = bundle;
    // One handler and one client process each, and the ticker.
    expect([relay.size, relay.slotsTaken, actors.size]).to.deep.equal([NEIGHBOURS, NEIGHBOURS, 2 * NEIGHBOURS + 1]);
    expect(bundle.lines.filter(({ level }) => level >= 40)).to.deep.equal([]);
  });
});
