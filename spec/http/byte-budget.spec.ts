import { expect } from 'chai';
import { ByteBudget } from '../../main/http/request-body.ts';

describe('a budget of bytes', () => {
  it('lets no client hold more than it leaves to the others', () => {
    const budget = new ByteBudget(100);
    expect(budget.take(51)).to.equal(false);
    expect(budget.take(30)).to.equal(true);
    expect(budget.take(21, 30)).to.equal(false);
    expect(budget.take(20, 30)).to.equal(true);
    expect(budget.take(26)).to.equal(false);
    expect(budget.take(25)).to.equal(true);
    expect(budget.used).to.equal(75);
  });

  it('has room for small bodies however many clients want large ones', () => {
    const budget = new ByteBudget(1_000_000);
    const held = Array<number>(200).fill(0);
    for (let round = 0; round < 20; round++) {
      for (const [client, bytes] of held.entries()) {
        const more = Math.max(512, bytes);
        if (budget.take(more, bytes)) held[client] = bytes + more;
      }
    }
    expect(budget.take(1024)).to.equal(true);
  });
});
