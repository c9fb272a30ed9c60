import { expect } from 'chai';
import { type Follower, TickRecord } from './tick-record.ts';

const tick = (timestamp: number) =>
  Buffer.from(JSON.stringify({ type: 'ticker', data: [{ symbol: 'BTC-USD', price: 42_000, timestamp }] }));

describe('the record of ticks', () => {
  it('counts the ticks that a client missed, between two received ones and at the end', () => {
    const record = new TickRecord();
    const [steady, slow, silent] = Array.from({ length: 3 }, (): Follower => ({ last: 'awaits tick' }));
    for (const second of [1, 2, 3, 4, 5]) {
      record.note(steady as Follower, tick(second), second * 1000 + 20);
      if (second % 3 === 1) record.note(slow as Follower, tick(second), second * 1000 + 30);
    }
    const { received, missed, ticks, skew, lateness } = record.report();
    expect({ received, missed, ticks }).to.deep.equal({ received: 7, missed: 2, ticks: 5 });
    expect([steady, slow, silent].map((follower) => record.behind(follower as Follower))).to.deep.equal([0, 1, 5]);
    expect(skew.max).to.be.closeTo(10, 0.1);
    expect(lateness.max).to.be.closeTo(30, 0.1);
  });

  it('counts neither snapshots nor other messages as ticks, however short they are', () => {
    const record = new TickRecord();
    const follower: Follower = { last: 'awaits snapshot' };
    for (const text of ['', '2', '{"type":"pong"}', '{"type":"welcome","user_id":"user:demo"}']) {
      record.note(follower, Buffer.from(text), 1000);
    }
    expect(follower.last).to.equal('awaits snapshot');
    record.note(follower, tick(1), 1000);
    expect(record.report()).to.include({ received: 0, missed: 0, ticks: 0 });
    record.note(follower, tick(1), 1010);
    expect(record.report()).to.include({ received: 1, missed: 0, ticks: 1 });
  });

  it('counts one tick, and none missed, if clients receive two ticks in turn', () => {
    const record = new TickRecord();
    for (const follower of [{ last: 'awaits tick' }, { last: 'awaits tick' }] as Follower[])
      for (const second of [1, 2]) record.note(follower, tick(second), second * 1000);
    expect(record.report()).to.include({ received: 4, missed: 0, ticks: 2 });
  });

  it('starts over with the tick that comes next', () => {
    const record = new TickRecord();
    const follower: Follower = { last: 'awaits tick' };
    record.note(follower, tick(1), 1010);
    record.startOver();
    follower.last = 'awaits tick';
    record.note(follower, tick(1), 1020);
    expect(record.report()).to.include({ received: 0, ticks: 0 });
    record.note(follower, tick(2), 2010);
    expect(record.report()).to.deep.include({ received: 1, missed: 0, timestamps: [2] });
  });
});

describe('the lateness of ticks with an interval below a second', () => {
  /** Records ticks by their times of arrival in milliseconds. Returns the largest lateness. */
  function latenessOf(record: TickRecord, ...arrivals: number[]): number {
    const follower: Follower = { last: 'awaits tick' };
    for (const [index, now] of arrivals.entries()) {
      // Ticks of the same second have different prices.
      const data = [{ price: now + index, timestamp: Math.floor(now / 1000) }];
      const payload = JSON.stringify({ type: 'ticker', data });
      record.note(follower, Buffer.from(payload), now);
    }
    return Math.round(record.report().lateness.max);
  }

  it('counts from the multiple at which each tick was due, also in a stall, and from the timestamp after skipped ticks', () => {
    const stall = Array(4).fill(1_000_450);
    expect(latenessOf(new TickRecord(100), 1_000_003, 1_000_107, 1_000_205)).to.equal(7);
    expect(latenessOf(new TickRecord(100), 1_000_001, ...stall)).to.equal(350);
    expect(latenessOf(new TickRecord(100), 1_000_001, 1_005_010)).to.equal(10);
  });

  it('counts from the next due time after a new start', () => {
    const record = new TickRecord(100);
    latenessOf(record, 1_000_090);
    record.startOver();
    expect(latenessOf(record, 1_000_320)).to.equal(220);
  });
});
