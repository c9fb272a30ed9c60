import { expect } from 'chai';
import fc from 'fast-check';
import { parseSymbol, roundPrice } from '../../../workers/shared/symbols.ts';

describe('the symbols', () => {
  it('have at least two decimals, and as many as their price is written with', () => {
    expect(
      ['A:1', 'A:1.5', 'A:1.50', 'A:1.500', 'A:0.00000001'].map((text) => parseSymbol(text)?.decimals),
    ).to.deep.equal([2, 2, 2, 3, 8]);
  });

  it('have prices with at most their decimals, which are rounded only once', () => {
    const price = fc.double({ min: 1e-8, max: 1e6, noNaN: true });
    fc.assert(
      fc.property(price, fc.integer({ min: 2, max: 8 }), (value, decimals) => {
        const rounded = roundPrice(value, decimals);
        expect(Math.abs(rounded - value)).to.be.at.most(0.500001 * 10 ** -decimals);
        expect(rounded).to.equal(Number(rounded.toFixed(decimals)));
        expect(roundPrice(rounded, decimals)).to.equal(rounded);
      }),
    );
  });
});
