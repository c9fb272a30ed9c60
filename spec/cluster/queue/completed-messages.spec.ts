import { expect } from 'chai';
import { CompletedMessages } from '../../../main/cluster/queue/completed-messages.ts';

describe('CompletedMessages', () => {
  it('keep at least the last 25,000 messages, and at most 50,000', () => {
    const completed = new CompletedMessages();
    const known = (n: number) =>
      Array.from({ length: n }, (_, sequence) => sequence).filter((sequence) => completed.idAt(sequence) !== undefined);
    for (let sequence = 0; sequence < 60_000; sequence++) {
      completed.add(sequence, `task-${sequence}`);
      expect(completed.idAt(Math.max(0, sequence - 24_999))).to.equal(`task-${Math.max(0, sequence - 24_999)}`);
    }
    expect(known(60_000)).to.have.length.within(25_000, 50_000);
  });
});
