import { expect } from 'chai';
import { Diagnostics, missedTicks } from '../../../www/ticker/diagnostics.ts';

const INTERVAL_MS = 1_000;
const START = 1_800_000_000;

/** Opens a connection and receives the snapshot and then ticks with these timestamps, each exactly at its time. */
function receive(diagnostics: Diagnostics, ...timestamps: number[]): void {
  diagnostics.opened();
  const [first = 0] = timestamps;
  diagnostics.pricesReceived(first - 1, 1_000 * first - 300, INTERVAL_MS);
  for (const timestamp of timestamps) diagnostics.pricesReceived(timestamp, 1_000 * timestamp, INTERVAL_MS);
}

describe('diagnostics of the connection', () => {
  it('know nothing at first', () => {
    expect(new Diagnostics().readings(0, INTERVAL_MS)).to.deep.equal({
      roundTrip: undefined,
      tickAge: undefined,
      jitter: undefined,
      missedTicks: 0,
      reconnects: 0,
      lastClose: undefined,
    });
  });

  it('have the percentiles of the last hundred round trips', () => {
    const diagnostics = new Diagnostics();
    const roundTrip = () => diagnostics.readings(0, INTERVAL_MS).roundTrip;
    diagnostics.pongReceived(7);
    expect(roundTrip()).to.deep.equal({ p50: 7, p95: 7, count: 1 });
    for (let sample = 0; sample < 100; sample++) diagnostics.pongReceived(1_000);
    for (let sample = 100; sample > 0; sample--) diagnostics.pongReceived(sample);
    expect(roundTrip()).to.deep.equal({ p50: 50, p95: 95, count: 100 });
  });

  it('have the age of the newest prices, and the mean deviation of ticks from the interval', () => {
    const diagnostics = new Diagnostics();
    diagnostics.opened();
    for (const now of [700, 1_000, 2_000, 3_030, 4_000]) diagnostics.pricesReceived(START, now, INTERVAL_MS);
    const { tickAge, jitter } = diagnostics.readings(4_250, INTERVAL_MS);
    expect({ tickAge, jitter }).to.deep.equal({ tickAge: 250, jitter: 20 });
  });

  it('measure no jitter between two connections, or between a snapshot and a tick', () => {
    const diagnostics = new Diagnostics();
    receive(diagnostics, START, START + 1);
    receive(diagnostics, START + 60, START + 61);
    expect(diagnostics.readings(0, INTERVAL_MS).jitter).to.equal(0);
  });

  it('count the ticks that are missing between two timestamps, also while disconnected, but not while signed out', () => {
    const diagnostics = new Diagnostics();
    const missed = () => diagnostics.readings(0, INTERVAL_MS).missedTicks;
    receive(diagnostics, START, START + 1, START + 2);
    expect(missed()).to.equal(0);
    receive(diagnostics, START + 6, START + 7, START + 9);
    expect(missed()).to.equal(4);
    diagnostics.signedOut();
    receive(diagnostics, START + 3_600);
    expect(missed()).to.equal(4);
    receive(diagnostics, START, START + 1);
    expect(missed(), 'the clock of the service was set back').to.equal(4);
  });

  it('count at least the ticks that are certainly missing if the interval is not a number of seconds', () => {
    const missed = (gap: number, intervalMs: number) => missedTicks(gap, intervalMs);
    expect([missed(0, 100), missed(1, 100), missed(2, 100), missed(3, 250)]).to.deep.equal([0, 0, 10, 8]);
    expect([missed(1, 1_500), missed(2, 1_500), missed(4, 1_500)]).to.deep.equal([0, 0, 2]);
    expect([missed(1, 1_012), missed(3, 987), missed(10, 4_960)]).to.deep.equal([0, 2, 1]);
  });

  it('have no false missed tick at any interval', () => {
    for (let intervalMs = 10; intervalMs <= 60_000; intervalMs += 90) {
      for (let tick = 1; tick < 100; tick++) {
        const second = (each: number) => Math.floor((each * intervalMs) / 1_000);
        const gap = second(tick + 1) - second(tick);
        if (missedTicks(gap, intervalMs) !== 0) expect.fail(`interval ${intervalMs}, gap ${gap}`);
      }
    }
  });

  it('count connections after the first, and keep the last close', () => {
    const diagnostics = new Diagnostics();
    for (const code of [1006, 1001]) {
      diagnostics.opened();
      diagnostics.closed(code, code);
    }
    diagnostics.opened();
    const { reconnects, lastClose } = diagnostics.readings(0, INTERVAL_MS);
    expect({ reconnects, lastClose }).to.deep.equal({ reconnects: 2, lastClose: { code: 1001, at: 1001 } });
  });
});
