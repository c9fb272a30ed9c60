import { expect } from 'chai';
import { Diagnostics } from '../../../www/ticker/diagnostics.ts';

const INTERVAL_MS = 1_000;
describe('the diagnostics of the connection', () => {
  it('have the percentiles of the last hundred round trips', () => {
    const diagnostics = new Diagnostics();
    const roundTrip = () => diagnostics.readings(0, INTERVAL_MS).roundTrip;
    expect(roundTrip()).to.equal(undefined);
    diagnostics.pongReceived(7);
    expect(roundTrip()).to.deep.equal({ p50: 7, p95: 7, count: 1 });
    for (let sample = 0; sample < 100; sample++) diagnostics.pongReceived(1_000);
    for (let sample = 100; sample > 0; sample--) diagnostics.pongReceived(sample);
    expect(roundTrip()).to.deep.equal({ p50: 50, p95: 95, count: 100 });
  });

  it('have the age of the newest prices, and the mean deviation of ticks from the interval', () => {
    const diagnostics = new Diagnostics();
    const unknown = { tickAge: undefined, jitter: undefined };
    expect(diagnostics.readings(0, INTERVAL_MS)).to.include(unknown);
    diagnostics.opened(0);
    for (const now of [1_000, 2_000, 3_030, 4_000]) diagnostics.tickReceived(0, now, INTERVAL_MS);
    expect(diagnostics.readings(4_250, INTERVAL_MS)).to.include({ tickAge: 250, jitter: 20 });
  });

  it('have no jitter between two connections, or in the first interval of one, which has a snapshot or resumed ticks', () => {
    const diagnostics = new Diagnostics();
    for (const openedAt of [0, 60_300]) {
      diagnostics.opened(openedAt);
      for (const after of [10, 11, 12, 700, 1_000, 2_000]) {
        diagnostics.tickReceived(0, openedAt + after, INTERVAL_MS);
      }
    }
    expect(diagnostics.readings(0, INTERVAL_MS).jitter).to.equal(0);
  });

  it('count the ticks that were missed, also if some of them are of an unknown number', () => {
    const diagnostics = new Diagnostics();
    const missed = () => diagnostics.readings(0, INTERVAL_MS);
    for (const each of [0, 2, 0, 3]) diagnostics.tickReceived(each, 0, INTERVAL_MS);
    expect(missed()).to.include({ missedTicks: 5, hasMissedMore: false });
    diagnostics.tickReceived(Number.POSITIVE_INFINITY, 0, INTERVAL_MS);
    diagnostics.tickReceived(1, 0, INTERVAL_MS);
    expect(missed()).to.include({ missedTicks: 6, hasMissedMore: true });
  });
});
