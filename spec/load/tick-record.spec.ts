import { expect } from 'chai';
import { type Follower, TickRecord } from './tick-record.ts';

const tick = (timestamp: number) =>
  Buffer.from(JSON.stringify({ type: 'ticker', data: [{ symbol: 'BTC-USD', price: 42_000, timestamp }] }));

describe('the record of ticks', () => {
  it('counts what a client missed, between two ticks that it got and at the end', () => {
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

  it('takes neither the snapshot nor other messages for ticks, however short they are', () => {
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
});
