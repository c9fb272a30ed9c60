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

  it('is listed if it is one of the 100 most frequent, with ten exact reasons', () => {
    const causes = new Causes(0);
    const found = { id: 'a', arrival: 1, bytes: 1, position: [], action: 'sum', permanent: true, failedAt: 1 };
    for (let length = 1; length <= 100; length++) causes.add({ ...found, reason: 'x'.repeat(length) });
    for (let order = 1; order <= 11; order++) causes.add({ ...found, reason: `order ${order}` });
    const { causes: listed } = JSON.parse(JSON.stringify(causes));
    expect([listed.length, listed[0].cause, listed[0].reasons.length]).to.deep.equal([100, 'order …', 10]);
    // Failed since `now`.
    expect(listed[0].minutes).to.deep.equal([...Array(29).fill(0), 11]);
  });
});
