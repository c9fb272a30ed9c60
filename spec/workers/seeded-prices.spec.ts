import { expect } from 'chai';
import fc from 'fast-check';
import { SeededPrices } from '../../workers/seeded-prices.ts';
import { defaultSymbols } from '../../workers/symbols.ts';

/** A time between the years 2000 and 2100, in milliseconds since the epoch. */
const moment = fc.integer({ min: 946_684_800_000, max: 4_102_444_800_000 });
const seed = fc.string({ minLength: 1 });

const create = (text = 'a seed', intervalMs = 1000) => new SeededPrices(text, intervalMs, defaultSymbols);

describe('seeded prices', () => {
  it('are known once and for all', () => {
    expect(create('42').pricesAt(1_700_000_000_999)).to.deep.equal([41_948.34, 2_518.37, 95.02]);
  });

  it('are the same whether a thread runs all the time or is restarted', () => {
    fc.assert(
      fc.property(seed, moment, fc.integer({ min: 1, max: 50 }), (text, from, ticks) => {
        const prices = create(text);
        for (let tick = 0; tick <= ticks; tick++) prices.prices(from + tick * 1000);
        const last = from + ticks * 1000;
        expect(prices.prices(last)).to.deep.equal(create(text).prices(last));
      }),
      { numRuns: 20 },
    );
  });

  it('move by 0.1 % at most from tick to tick, but for the rounding to cents, and have two decimals', () => {
    fc.assert(
      fc.property(seed, moment, (text, from) => {
        const prices = create(text);
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
        for (const [index, price] of create(text).pricesAt(now).entries()) {
          expect(price / (defaultSymbols[index]?.price ?? 0)).to.be.within(0.9, 1.1);
        }
      }),
      { numRuns: 50 },
    );
  });

  it('move at nearly every tick, each symbol independently', () => {
    const prices = create();
    const moves: string[] = [];
    for (let tick = 0; tick < 100; tick++) {
      const before = [...prices.pricesAt((tick - 1) * 1000)];
      moves.push(
        Array.from(prices.prices(tick * 1000), (value, index) => Math.sign(value - (before[index] ?? 0))).join(),
      );
    }
    expect(new Set(moves).size).to.be.greaterThan(6);
  });

  it('are others with another seed', () => {
    expect(create('1').pricesAt(0)).not.to.deep.equal(create('2').pricesAt(0));
  });

  it('count the ticks of any interval', () => {
    const [fast, slow] = [create('x', 10), create('x', 60_000)];
    const priceOf = (prices: SeededPrices, now: number) => prices.pricesAt(now)[0];
    expect(priceOf(fast, 1_000_009)).to.equal(priceOf(fast, 1_000_000));
    expect(priceOf(fast, 1_000_010)).not.to.equal(priceOf(fast, 1_000_000));
    expect(priceOf(slow, 60_000 * 100_000)).to.equal(priceOf(fast, 10 * 100_000));
  });

  it('have as many decimals as the symbol', () => {
    const prices = new SeededPrices('x', 1000, [{ symbol: 'DOGE-USD', price: 0.08123, decimals: 5 }]);
    const [price = 0] = prices.pricesAt(1_700_000_000_000);
    expect(price).to.equal(Number(price.toFixed(5)));
    expect(price / 0.08123).to.be.within(0.9, 1.1);
    expect(price).to.not.equal(Number(price.toFixed(2)));
  });
});
