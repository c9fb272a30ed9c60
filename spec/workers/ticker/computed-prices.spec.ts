import { expect } from 'chai';
import fc from 'fast-check';
import { defaultSymbols } from '../../../workers/shared/symbols.ts';
import { nextPrice, PriceWalk, SeededPrices } from '../../../workers/ticker/computed-prices.ts';

const random = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });
const price = fc.integer({ min: 1, max: 100_000_000 }).map((cents) => cents / 100);

const initial = defaultSymbols.map((each) => each.price);

/** Returns a function that continues from the given prices, or from its last result. */
function startWalk(draw?: () => number, prices: readonly number[] = initial): () => readonly number[] {
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
    const next = startWalk(() => draws.shift() ?? Number.NaN);
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
        const next = startWalk(() => draws.next().value);
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
    const [one, other] = [startWalk(), startWalk()];
    for (let tick = 0; tick < 20; tick++) for (const next of [one, other]) next();
    expect(one()).to.not.deep.equal(other());
  });
});

/** A time between the years 2000 and 2100, in milliseconds since the epoch. */
const moment = fc.integer({ min: 946_684_800_000, max: 4_102_444_800_000 });
const seed = fc.string({ minLength: 1 });

const seeded = (text = 'a seed', intervalMs = 1000) => new SeededPrices(text, intervalMs, defaultSymbols);

describe('seeded prices', () => {
  it('are known once and for all', () => {
    expect(seeded('42').prices(1_700_000_000_999)).to.deep.equal([41_948.34, 2_518.37, 95.02]);
  });

  it('are the same whether a thread runs all the time or is restarted', () => {
    fc.assert(
      fc.property(seed, moment, fc.integer({ min: 1, max: 50 }), (text, from, ticks) => {
        const prices = seeded(text);
        for (let tick = 0; tick <= ticks; tick++) prices.prices(from + tick * 1000);
        const last = from + ticks * 1000;
        expect(prices.prices(last)).to.deep.equal(seeded(text).prices(last));
      }),
      { numRuns: 20 },
    );
  });

  it('move by 0.1 % at most from tick to tick, but for the rounding to cents, and have two decimals', () => {
    fc.assert(
      fc.property(seed, moment, (text, from) => {
        const prices = seeded(text);
        let before = [...prices.prices(from)];
        for (let tick = 1; tick <= 100; tick++) {
          const values = [...prices.prices(from + tick * 1000)];
          for (const [index, after] of values.entries()) {
            const last = before[index] as number;
            expect(Math.abs(after - last)).to.be.at.most(last * 0.001 + 0.005 + 1e-9);
            expect(after).to.equal(Number(after.toFixed(2)));
          }
          before = values;
        }
      }),
      { numRuns: 20 },
    );
  });

  it('stay around the initial prices forever', () => {
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
    const moves: string[] = [];
    for (let tick = 0; tick < 100; tick++) {
      const before = [...prices.prices((tick - 1) * 1000)];
      moves.push(
        Array.from(prices.prices(tick * 1000), (value, index) => Math.sign(value - (before[index] ?? 0))).join(),
      );
    }
    expect(new Set(moves).size).to.be.greaterThan(6);
  });

  it('are others with another seed', () => {
    expect(seeded('1').prices(0)).not.to.deep.equal(seeded('2').prices(0));
  });

  it('count the ticks of any interval', () => {
    const [fast, slow] = [seeded('x', 10), seeded('x', 60_000)];
    const priceOf = (prices: SeededPrices, now: number) => prices.prices(now)[0];
    expect(priceOf(fast, 1_000_009)).to.equal(priceOf(fast, 1_000_000));
    expect(priceOf(fast, 1_000_010)).not.to.equal(priceOf(fast, 1_000_000));
    expect(priceOf(slow, 60_000 * 100_000)).to.equal(priceOf(fast, 10 * 100_000));
  });

  it('have as many decimals as the symbol', () => {
    const prices = new SeededPrices('x', 1000, [{ symbol: 'DOGE-USD', price: 0.08123, decimals: 5 }]);
    const [price = 0] = prices.prices(1_700_000_000_000);
    expect(price).to.equal(Number(price.toFixed(5)));
    expect(price / 0.08123).to.be.within(0.9, 1.1);
    expect(price).to.not.equal(Number(price.toFixed(2)));
  });
});
