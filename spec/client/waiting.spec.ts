import { getEventListeners } from 'node:events';
import { expect } from 'chai';
import { backoff, linkedTo } from '../../www/client/waiting.ts';

describe('the backoff of the clients', () => {
  it('draws from zero to a bound that doubles with each failure, up to 15 s', () => {
    const bounds = Array.from({ length: 40 }, (_, failures) => backoff(failures, () => 1));
    expect(bounds.slice(0, 6)).to.deep.equal([1_000, 2_000, 4_000, 8_000, 15_000, 15_000]);
    expect(bounds.at(-1)).to.equal(15_000);
    expect(backoff(3, () => 0)).to.equal(0);
    expect(backoff(3, () => 0.5)).to.equal(4_000);
  });
});

describe('a controller linked to signals', () => {
  it('is aborted with the first of them, and shares one listener of each with others, which leave none', () => {
    const [one, two] = [new AbortController(), new AbortController()];
    const listeners = () => [one, two].map(({ signal }) => getEventListeners(signal, 'abort').length);
    const linked = Array.from({ length: 20 }, () => linkedTo(one.signal, two.signal));
    for (const each of linked.slice(0, 10)) each.abort();
    expect(listeners()).to.deep.equal([1, 1]);
    one.abort('enough');
    expect(linked.map(({ signal }) => signal.reason).slice(10)).to.deep.equal(Array(10).fill('enough'));
    expect(listeners()).to.deep.equal([0, 0]);
    expect(linkedTo(two.signal, one.signal).signal.reason).to.equal('enough');
    expect(linkedTo(one.signal, two.signal).signal.reason).to.equal('enough');
    expect(listeners()).to.deep.equal([0, 0]);
  });
});
