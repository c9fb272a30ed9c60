import { expect } from 'chai';
import fc from 'fast-check';
import { type Crowd, gather } from '../support/crowd.ts';
import { type Attack, attack, attacks } from '../support/hostile.ts';
import { openSockets } from '../support/proc.ts';
import { startServices } from '../support/program.ts';
import { seed, seedNote } from '../support/seed.ts';
import { startTickerBundle } from '../support/ticker-bundle.ts';
import { until } from '../support/until.ts';

const NEIGHBOURS = 5;

/** Runs random attacks by several clients at a time, from the seed. */
function attackWith(token: string, port: number, numRuns: number): Promise<void> {
  const several = fc.array(attacks, { minLength: 1, maxLength: 8 });
  const all = (each: Attack[]) => Promise.all(each.map((one) => attack(port, token, one)));
  return fc.assert(
    fc.asyncProperty(several, async (each) => void (await all(each))),
    { seed, numRuns },
  );
}

/** Asserts that all neighbours are connected and received every tick and nothing else. */
async function expectNothingSeen(crowd: Crowd): Promise<void> {
  const report = await crowd.report();
  expect(report).to.deep.include({ open: NEIGHBOURS, behind: 0, gaps: 0, closed: {} });
  expect(Object.keys(report.types)).to.have.members(['welcome', 'ticker']);
  expect(report.timestamps.length).to.be.greaterThan(0);
}

/** Defines the specs of clients that send broken frames, in `numRuns` groups to the relay and as many to a real process. */
export function describeBrokenFrames(numRuns: number): void {
  describe(`clients that send broken frames, and are cut off anywhere ${seedNote}`, () => {
    it('are seen by no neighbour, and leave nothing behind in the relay', async () => {
      const bundle = await startTickerBundle({ intervalMs: 20 });
      const [token, { port }] = [await bundle.token(), bundle.listener];
      const crowd = await gather({ port, token, readers: NEIGHBOURS, silent: 0, chatty: 0 });
      await attackWith(token, port, numRuns);
      await until(() => bundle.sockets.size === NEIGHBOURS);
      await expectNothingSeen(crowd);
      const { relay, processes } = bundle;
      // One handler and one client process each, and the ticker.
      expect([relay.size, relay.slotsTaken, processes.size]).to.deep.equal([
        NEIGHBOURS,
        NEIGHBOURS,
        2 * NEIGHBOURS + 1,
      ]);
      expect(bundle.lines.filter(({ level }) => level >= 40)).to.deep.equal([]);
    });

    it('are seen by no neighbour, and leave nothing behind in the real process', async () => {
      const services = await startServices({ env: { TICK_INTERVAL_MS: '20' } });
      const [token, port] = [await services.token(), Number(new URL(services.ticker).port)];
      const pid = services.child.pid as number;
      const crowd = await gather({ port, token, readers: NEIGHBOURS, silent: 0, chatty: 0 });
      const before = process.platform === 'linux' ? openSockets(pid) : 0;
      await attackWith(token, port, numRuns);
      if (process.platform === 'linux') await until(() => openSockets(pid) <= before);
      await expectNothingSeen(crowd);
      expect(services.lines.filter(({ level }) => level >= 40)).to.deep.equal([]);
      expect(services.errors()).to.equal('');
    });
  });
}
