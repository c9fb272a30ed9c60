import { expect } from 'chai';
import { CounterByLabel } from '../../main/metrics/counter-by-label.ts';

describe('a tally', () => {
  it('counts by name, and starts the given names at zero', () => {
    const tally = new CounterByLabel(['a', 'b']);
    for (const name of ['b', 'c', 'b']) tally.count(name);
    expect([...tally]).to.deep.equal([
      ['a', 0],
      ['b', 2],
      ['c', 1],
    ]);
  });

  it('counts all that is past its bound together', () => {
    const tally = new CounterByLabel();
    for (let name = 0; name < 1000; name++) tally.count(String(name));
    tally.count('7');
    const counts = new Map(tally);
    expect(counts.size).to.equal(101);
    expect(counts.get('7')).to.equal(2);
    expect(counts.get('other')).to.equal(900);
  });
});
