import { expect } from 'chai';
import { type Follower, TickRecord } from './tick-record.ts';

const tick = (timestamp: number, price = 42_000) =>
  Buffer.from(JSON.stringify({ type: 'ticker', data: [{ symbol: 'BTC-USD', price, timestamp }] }));
const awaiting = (): Follower => ({ last: 'awaits tick' });

describe('the record of ticks', () => {
  it('counts the ticks that a client missed, between two received ones and at the end', () => {
    const record = new TickRecord();
    const [steady, slow, silent] = [awaiting(), awaiting(), awaiting()];
    for (const second of [1, 2, 3, 4, 5]) {
      record.note(steady, tick(second), second * 1000 + 20);
      if (second % 3 === 1) record.note(slow, tick(second), second * 1000 + 30);
    }
    const { skew, lateness } = record.report();
    expect(record.report()).to.include({ received: 7, missed: 2, ticks: 5 });
    expect([steady, slow, silent].map((follower) => record.behind(follower))).to.deep.equal([0, 1, 5]);
    expect(skew.max).to.be.closeTo(10, 0.1);
    expect(lateness.max).to.be.closeTo(30, 0.1);
  });

  it('counts neither snapshots nor other messages, and no tick twice, and starts over with the tick that comes next', () => {
    const record = new TickRecord();
    const follower: Follower = { last: 'awaits snapshot' };
    for (const text of ['', '2', '{"type":"pong"}']) record.note(follower, Buffer.from(text), 1000);
    expect(follower.last).to.equal('awaits snapshot');
    record.note(follower, tick(1), 1000);
    expect(record.report()).to.include({ received: 0, missed: 0, ticks: 0 });
    for (const each of [follower, awaiting()]) for (const second of [1, 2]) record.note(each, tick(second), 2010);
    expect(record.report()).to.include({ received: 4, missed: 0, ticks: 2 });
    record.startOver();
    follower.last = 'awaits tick';
    record.note(follower, tick(2), 2020);
    record.note(follower, tick(3), 3010);
    expect(record.report()).to.deep.include({ received: 1, missed: 0, timestamps: [3] });
  });

  it('measures the lateness of quick ticks from the multiple at which each was due, also in a stall and after a new start', () => {
    const latenessOf = (record: TickRecord, ...arrivals: number[]) => {
      const follower = awaiting();
      for (const [index, now] of arrivals.entries())
        record.note(follower, tick(Math.floor(now / 1000), now + index), now);
      return Math.round(record.report().lateness.max);
    };
    expect(latenessOf(new TickRecord(100), 1_000_003, 1_000_107, 1_000_205)).to.equal(7);
    expect(latenessOf(new TickRecord(100), 1_000_001, ...Array(4).fill(1_000_450))).to.equal(350);
    expect(latenessOf(new TickRecord(100), 1_000_001, 1_005_010), 'after skipped ticks').to.equal(10);
    const record = new TickRecord(100);
    latenessOf(record, 1_000_090);
    record.startOver();
    expect(latenessOf(record, 1_000_320)).to.equal(220);
  });
});
