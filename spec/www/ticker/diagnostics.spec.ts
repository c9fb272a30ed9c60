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
    diagnostics.opened();
    for (const now of [700, 1_000, 2_000, 3_030, 4_000]) diagnostics.pricesReceived(START, now, INTERVAL_MS);
    expect(diagnostics.readings(4_250, INTERVAL_MS)).to.include({ tickAge: 250, jitter: 20 });
  });

  it('have no jitter between two connections, or between a snapshot and a tick', () => {
    const diagnostics = new Diagnostics();
    receive(diagnostics, START, START + 1);
    receive(diagnostics, START + 60, START + 61);
    expect(diagnostics.readings(0, INTERVAL_MS).jitter).to.equal(0);
  });

  it('count missed ticks by the timestamps, also while disconnected, but not while signed out', () => {
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

  it('count only ticks that are certainly missed, at any interval', () => {
    const perGap: [intervalMs: number, missedByGap: Record<number, number>][] = [
      [100, { 0: 0, 1: 0, 2: 10 }],
      [250, { 3: 8 }],
      [1_500, { 1: 0, 2: 0, 4: 2 }],
      [1_012, { 1: 0 }],
      [987, { 3: 2 }],
      [4_960, { 10: 1 }],
    ];
    for (const [intervalMs, missedByGap] of perGap) {
      for (const [gap, missed] of Object.entries(missedByGap))
        expect(missedTicks(Number(gap), intervalMs), `${gap} s at ${intervalMs} ms`).to.equal(missed);
    }
    for (let intervalMs = 10; intervalMs <= 60_000; intervalMs += 90) {
      for (let tick = 1; tick < 100; tick++) {
        const second = (each: number) => Math.floor((each * intervalMs) / 1_000);
        const gap = second(tick + 1) - second(tick);
        if (missedTicks(gap, intervalMs) !== 0) expect.fail(`interval ${intervalMs}, gap ${gap}`);
      }
    }
  });
});
