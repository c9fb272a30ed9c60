import { expect } from 'chai';
import fc from 'fast-check';
import { defaultSymbols } from '../../../workers/shared/symbols.ts';
import { nextPrice, priceWalk, seededPrices } from '../../../workers/ticker/computed-prices.ts';

const random = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });
const price = fc.integer({ min: 1, max: 100_000_000 }).map((cents) => cents / 100);

/** Asserts that a price has two decimals at most, and is within 0.1 % of the one before, except for the rounding. */
function expectStep(before: number, after: number): void {
  expect(Math.abs(after - before)).to.be.at.most(before * 0.001 + 0.005 + 1e-9);
  expect(after).to.equal(Number(after.toFixed(2)));
}

describe('the next price', () => {
  it('is the previous price times (1 + f), rounded to cents, where f is drawn from -0.001 to 0.001', () => {
    expect(nextPrice(42_000, () => 0)).to.equal(41_958);
    expect(nextPrice(42_000, () => 0.25)).to.equal(41_979);
    expect(nextPrice(42_000, () => 0.5)).to.equal(42_000);
    expect(nextPrice(42_000, () => 1 - 2 ** -53)).to.equal(42_042);
    expect(nextPrice(95, () => 0.75)).to.equal(95.05);
    fc.assert(
      fc.property(price, random, random, (before, one, other) => {
        const [low, high] = [Math.min(one, other), Math.max(one, other)].map((draw) => nextPrice(before, () => draw));
        expectStep(before, low as number);
        expect(low).to.be.at.most(high as number);
      }),
    );
  });
});

describe('the price walk', () => {
  it('continues from the last known prices, and draws a new random number for each price', () => {
    const draws = [0, 0.5, 1 - 2 ** -53];
    const walk = priceWalk(defaultSymbols, () => draws.shift() ?? 0.5);
    expect(walk.prices(0, [42_000, 2_500, 95])).to.deep.equal([41_958, 2_500, 95.09]);
    expect(draws).to.deep.equal([]);
    expect(walk.prices(0, [420_000, 25_000, 950])).to.deep.equal([420_000, 25_000, 950]);
  });

  it('rounds to the decimals of the symbol', () => {
    const symbols = [
      { symbol: 'DOGE-USD', price: 0.08123, decimals: 5 },
      { symbol: 'SHIB-USD', price: 0.00002345, decimals: 8 },
    ];
    expect(priceWalk(symbols, () => 0).prices(0, [0.08123, 0.00002345])).to.deep.equal([0.08115, 0.00002343]);
  });

  it('keeps every price positive, however long it continues', () => {
    fc.assert(
      fc.property(fc.infiniteStream(random), (draws) => {
        const walk = priceWalk(defaultSymbols, () => draws.next().value);
        let last: readonly number[] = [0.01, 0.02, 95];
        for (let tick = 0; tick < 200; tick++) last = walk.prices(0, last);
        for (const each of last) expect(each).to.be.greaterThan(0);
      }),
      { numRuns: 20 },
    );
  });

  it('draws random numbers from the system by default', () => {
    const walks = [priceWalk(defaultSymbols), priceWalk(defaultSymbols)].map((walk) => {
      let last: readonly number[] = [42_000, 2_500, 95];
      for (let tick = 0; tick < 20; tick++) last = walk.prices(0, last);
      return last;
    });
    expect(walks[0]).to.not.deep.equal(walks[1]);
  });
});

/** A time between the years 2000 and 2100, in milliseconds since the epoch. */
const moment = fc.integer({ min: 946_684_800_000, max: 4_102_444_800_000 });
const seed = fc.string({ minLength: 1 });

const seeded = (text = 'a seed', intervalMs = 1000) => seededPrices(text, intervalMs, defaultSymbols);

describe('seeded prices', () => {
  it('move by 0.1 % at most from tick to tick, and do not depend on a restart', () => {
    fc.assert(
      fc.property(seed, moment, (text, from) => {
        const prices = seeded(text);
        let before = [...prices.prices(from)];
        for (let tick = 1; tick <= 100; tick++) {
          const values = [...prices.prices(from + tick * 1000)];
          for (const [index, after] of values.entries()) expectStep(before[index] as number, after);
          before = values;
        }
        expect(before).to.deep.equal(seeded(text).prices(from + 100_000));
      }),
      { numRuns: 20 },
    );
  });

  it('stay within 10 % of the initial prices forever', () => {
    fc.assert(
      fc.property(seed, moment, (text, now) => {
        for (const [index, price] of seeded(text).prices(now).entries()) {
          expect(price / (defaultSymbols[index]?.price ?? 0)).to.be.within(0.9, 1.1);
        }
      }),
      { numRuns: 50 },
    );
  });

  it('move at nearly every tick, each symbol independently', () => {
    const prices = seeded();
    const moves = Array.from({ length: 100 }, (_, tick) => {
      const before = [...prices.prices((tick - 1) * 1000)];
      return Array.from(prices.prices(tick * 1000), (value, index) => Math.sign(value - (before[index] ?? 0))).join();
    });
    expect(new Set(moves).size).to.be.greaterThan(6);
  });

  it('have the decimals of the symbol', () => {
    const prices = seededPrices('x', 1000, [{ symbol: 'DOGE-USD', price: 0.08123, decimals: 5 }]);
    const [price = 0] = prices.prices(1_700_000_000_000);
    expect(price).to.equal(Number(price.toFixed(5)));
    expect(price).to.not.equal(Number(price.toFixed(2)));
  });
});
