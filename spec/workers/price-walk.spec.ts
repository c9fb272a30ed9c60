import { expect } from 'chai';
import fc from 'fast-check';
import { nextPrice, PriceWalk, systemRandom } from '../../workers/price-walk.ts';
import { initialPrices, symbols } from '../../workers/symbols.ts';

const random = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });
const price = fc.integer({ min: 1, max: 100_000_000 }).map((cents) => cents / 100);

const create = (values: Float64Array = new Float64Array(symbols.length), draw?: () => number) =>
  new PriceWalk(values, draw);

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
  it('starts from the initial prices', () => {
    const walk = create();
    expect(initialPrices).to.deep.equal({ 'BTC-USD': 42_000, 'ETH-USD': 2_500, 'SOL-USD': 95 });
    expect(walk.snapshot(1_700_000_000_999)).to.deep.equal([
      { symbol: 'BTC-USD', price: 42_000, timestamp: 1_700_000_000 },
      { symbol: 'ETH-USD', price: 2_500, timestamp: 1_700_000_000 },
      { symbol: 'SOL-USD', price: 95, timestamp: 1_700_000_000 },
    ]);
  });

  it('goes on from the prices that are there', () => {
    const values = new Float64Array([50_000, 0, 100]);
    const prices = create(values).snapshot(0);
    expect(prices.map((entry) => entry.price)).to.deep.equal([50_000, 2_500, 100]);
  });

  it('keeps its prices in the memory it was given', () => {
    const values = new Float64Array(64);
    const walk = create(values, () => 0);
    walk.step();
    expect([...values.subarray(0, 4)]).to.deep.equal([41_958, 2_497.5, 94.91, 0]);
    expect(create(values).snapshot(0)).to.deep.equal(walk.snapshot(0));
  });

  it('draws a new random number for each price', () => {
    const draws = [0, 0.5, 1 - 2 ** -53];
    const walk = create(undefined, () => draws.shift() ?? Number.NaN);
    walk.step();
    expect(walk.snapshot(0).map((entry) => entry.price)).to.deep.equal([41_958, 2_500, 95.09]);
    expect(draws).to.deep.equal([]);
  });

  it('keeps every price a positive number with two decimals, however long it goes on', () => {
    fc.assert(
      fc.property(fc.infiniteStream(random), (draws) => {
        const walk = create(undefined, () => draws.next().value);
        for (let tick = 0; tick < 200; tick++) walk.step();
        for (const entry of walk.snapshot(0)) {
          expect(entry.price).to.be.greaterThan(0);
          expect(entry.price).to.equal(Number(entry.price.toFixed(2)));
        }
      }),
      { numRuns: 20 },
    );
  });

  it('takes its randomness from the system', () => {
    const [one, other] = [create(), create()];
    for (let tick = 0; tick < 20; tick++) for (const walk of [one, other]) walk.step();
    expect(one.snapshot(0)).to.not.deep.equal(other.snapshot(0));
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
