import { expect } from 'chai';
import { Causes, causeOf } from '../../main/tasks/causes.ts';

describe('the cause of a failure', () => {
  const reasons: [reason: string | null, cause: string][] = [
    [null, ''],
    ['card declined', 'card declined'],
    ['request 8f14e45f-ceea-467f-a9ab-000000000000 failed', 'request … failed'],
    ['order SKU-20468: 3 of 17 items left', 'order … of … items left'],
    ['connect ECONNREFUSED 10.0.0.1:5432', 'connect ECONNREFUSED …'],
    ['commit deadbeef is unknown to the cafe', 'commit … is unknown to the cafe'],
    ["can't read \"a b\" or 'c', don't retry `d`", "can't read … or …, don't retry …"],
    ['took 546.25 s, at 12:30:01', 'took … s, at …'],
    ['x'.repeat(1000), 'x'.repeat(300)],
    ['"'.repeat(300), '…'],
    [`${'x'.repeat(299)}\u{1f600}`, `${'x'.repeat(299)}\ufffd`],
  ];
  for (const [reason, cause] of reasons)
    it(`of ${reason?.slice(0, 40)} is ${cause.slice(0, 40)}`, () => expect(causeOf(reason)).to.equal(cause));
});

describe('the causes of failures', () => {
  it('are the 100 most frequent, with ten exact reasons each, and failures of the last 30 minutes', () => {
    const now = 1_800_000_000_000;
    const causes = new Causes(now);
    const add = (reason: string, minutesAgo = 0) => {
      const found = { id: 'a', arrival: 1, bytes: 1, position: [], action: 'sum', permanent: true };
      causes.add({ ...found, reason, failedAt: now - minutesAgo * 60_000 });
    };
    for (let length = 1; length <= 100; length++) add('x'.repeat(length));
    for (let order = 1; order <= 12; order++) add(`order ${order}`, order < 3 ? 28 + order : 0);
    add('order 1');
    const answer = JSON.parse(JSON.stringify(causes));
    expect([answer.total, answer.causes.length]).to.deep.equal([113, 100]);
    const [first] = answer.causes;
    expect(first).to.include({ cause: 'order …', count: 13 });
    expect(first.minutes).to.deep.equal([1, ...Array(28).fill(0), 11]);
    expect(first.reasons).to.have.length(10);
    expect(first.reasons[0]).to.deep.equal({ reason: 'order 1', count: 2 });
  });
});
