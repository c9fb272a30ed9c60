import { expect } from 'chai';
import { backoff } from '../../www/client/waiting.ts';

describe('the backoff of the clients', () => {
  it('draws from zero to a bound that doubles with each failure, up to 15 s', () => {
    const bounds = Array.from({ length: 40 }, (_, failures) => backoff(failures, () => 1));
    expect(bounds.slice(0, 6)).to.deep.equal([1_000, 2_000, 4_000, 8_000, 15_000, 15_000]);
    expect(bounds.at(-1)).to.equal(15_000);
    expect(backoff(3, () => 0)).to.equal(0);
    expect(backoff(3, () => 0.5)).to.equal(4_000);
  });
});
