import { expect } from 'chai';
import fc from 'fast-check';
import { nextPrice, PriceWalk, systemRandom } from '../../workers/price-walk.ts';
import { defaultSymbols } from '../../workers/symbols.ts';

const random = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });
const price = fc.integer({ min: 1, max: 100_000_000 }).map((cents) => cents / 100);

const initial = defaultSymbols.map((each) => each.price);

/** Returns a function that continues from given prices, or from those that it returned last. */
function create(draw?: () => number, prices: readonly number[] = initial): () => readonly number[] {
  const walk = new PriceWalk(defaultSymbols, draw);
  let last = prices;
  return () => {
    last = walk.prices(0, last);
    return last;
  };
}

describe('the next price', () => {
  it('is within 0.1 % of the one before, but for the rounding to cents', () => {
    fc.assert(
      fc.property(price, random, (before, draw) => {
        const after = nextPrice(before, () => draw);
        expect(Math.abs(after - before)).to.be.at.most(before * 0.001 + 0.005 + 1e-9);
      }),
    );
  });

  it('has two decimals at most', () => {
    fc.assert(
      fc.property(price, random, (before, draw) => {
        const after = nextPrice(before, () => draw);
        expect(after).to.equal(Number(after.toFixed(2)));
      }),
    );
  });

  it('is the one before times (1 + f), f going from -0.001 to 0.001', () => {
    expect(nextPrice(42_000, () => 0)).to.equal(41_958);
    expect(nextPrice(42_000, () => 0.25)).to.equal(41_979);
    expect(nextPrice(42_000, () => 0.5)).to.equal(42_000);
    expect(nextPrice(42_000, () => 1 - 2 ** -53)).to.equal(42_042);
    expect(nextPrice(95, () => 0.75)).to.equal(95.05);
  });

  it('is never lower for a larger draw', () => {
    fc.assert(
      fc.property(price, random, random, (before, one, other) => {
        const [low, high] = [Math.min(one, other), Math.max(one, other)];
        expect(nextPrice(before, () => low)).to.be.at.most(nextPrice(before, () => high));
      }),
    );
  });
});

describe('the price walk', () => {
  it('continues from the last known prices', () => {
    const walk = new PriceWalk(defaultSymbols, () => 0.5);
    for (const last of [
      [50_000, 2_500, 100],
      [420_000, 25_000, 950],
    ])
      expect(walk.prices(0, last)).to.deep.equal(last);
  });

  it('draws a new random number for each price', () => {
    const draws = [0, 0.5, 1 - 2 ** -53];
    const next = create(() => draws.shift() ?? Number.NaN);
    expect(next()).to.deep.equal([41_958, 2_500, 95.09]);
    expect(draws).to.deep.equal([]);
  });

  it('rounds to as many decimals as the symbol has', () => {
    const symbols = [
      { symbol: 'DOGE-USD', price: 0.08123, decimals: 5 },
      { symbol: 'SHIB-USD', price: 0.00002345, decimals: 8 },
    ];
    expect(new PriceWalk(symbols, () => 0).prices(0, [0.08123, 0.00002345])).to.deep.equal([0.08115, 0.00002343]);
  });

  it('keeps every price a positive number with two decimals, however long it goes on', () => {
    fc.assert(
      fc.property(fc.infiniteStream(random), (draws) => {
        const next = create(() => draws.next().value);
        for (let tick = 0; tick < 200; tick++) next();
        for (const each of next()) {
          expect(each).to.be.greaterThan(0);
          expect(each).to.equal(Number(each.toFixed(2)));
        }
      }),
      { numRuns: 20 },
    );
  });

  it('takes its randomness from the system', () => {
    const [one, other] = [create(), create()];
    for (let tick = 0; tick < 20; tick++) for (const next of [one, other]) next();
    expect(one()).to.not.deep.equal(other());
  });
});

describe('the system randomness', () => {
  it('is drawn evenly from [0, 1)', () => {
    const draws = Array.from({ length: 20_000 }, systemRandom);
    for (const draw of draws) if (!(draw >= 0 && draw < 1)) throw new Error(`${draw} was drawn`);
    expect(new Set(draws).size).to.equal(draws.length);
    for (let tenth = 0; tenth < 10; tenth++) {
      const share = draws.filter((draw) => Math.floor(draw * 10) === tenth).length / draws.length;
      // Ten standard deviations, so the test practically never fails by chance.
      expect(share).to.be.closeTo(0.1, 0.022);
    }
  });
});
