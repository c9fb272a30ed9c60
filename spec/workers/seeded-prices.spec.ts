import { expect } from 'chai';
import fc from 'fast-check';
import { SeededPrices } from '../../workers/seeded-prices.ts';
import { initialPrices, symbols } from '../../workers/symbols.ts';

/** A time between the years 2000 and 2100, in milliseconds since the epoch. */
const moment = fc.integer({ min: 946_684_800_000, max: 4_102_444_800_000 });
const seed = fc.string({ minLength: 1 });

function create(text = 'a seed', intervalMs = 1000) {
  const values = new Float64Array(symbols.length);
  return { values, prices: new SeededPrices(values, text, intervalMs) };
}

describe('seeded prices', () => {
  it('are known once and for all', () => {
    expect(create('42').prices.snapshot(1_700_000_000_999)).to.deep.equal([
      { symbol: 'BTC-USD', price: 41_948.34, timestamp: 1_700_000_000 },
      { symbol: 'ETH-USD', price: 2_518.37, timestamp: 1_700_000_000 },
      { symbol: 'SOL-USD', price: 95.02, timestamp: 1_700_000_000 },
    ]);
  });

  it('are the same whether a thread runs all the time or is restarted', () => {
    fc.assert(
      fc.property(seed, moment, fc.integer({ min: 1, max: 50 }), (text, from, ticks) => {
        const { prices, values } = create(text);
        for (let tick = 0; tick <= ticks; tick++) prices.step(from + tick * 1000);
        const { prices: fresh, values: expected } = create(text);
        fresh.step(from + ticks * 1000);
        expect(values).to.deep.equal(expected);
      }),
      { numRuns: 20 },
    );
  });

  it('move by 0.1 % at most from tick to tick, but for the rounding to cents, and have two decimals', () => {
    fc.assert(
      fc.property(seed, moment, (text, from) => {
        const { prices, values } = create(text);
        prices.step(from);
        for (let tick = 1; tick <= 100; tick++) {
          const before = [...values];
          prices.step(from + tick * 1000);
          for (const [index, after] of values.entries()) {
            const last = before[index] as number;
            expect(Math.abs(after - last)).to.be.at.most(last * 0.001 + 0.005 + 1e-9);
            expect(after).to.equal(Number(after.toFixed(2)));
          }
        }
      }),
      { numRuns: 20 },
    );
  });

  it('stay around the initial prices forever', () => {
    fc.assert(
      fc.property(seed, moment, (text, now) => {
        for (const { symbol, price } of create(text).prices.snapshot(now)) {
          expect(price / initialPrices[symbol]).to.be.within(0.9, 1.1);
        }
      }),
      { numRuns: 50 },
    );
  });

  it('move at nearly every tick, each symbol independently', () => {
    const { prices, values } = create();
    const moves: string[] = [];
    for (let tick = 0; tick < 100; tick++) {
      const before = [...values];
      prices.step(tick * 1000);
      moves.push([...values].map((value, index) => Math.sign(value - (before[index] as number))).join());
    }
    expect(new Set(moves).size).to.be.greaterThan(6);
  });

  it('are others with another seed', () => {
    expect(create('1').prices.snapshot(0)).not.to.deep.equal(create('2').prices.snapshot(0));
  });

  it('count the ticks of any interval', () => {
    const [fast, slow] = [create('x', 10), create('x', 60_000)];
    const priceOf = ({ prices }: typeof fast, now: number) => prices.snapshot(now)[0]?.price;
    expect(priceOf(fast, 1_000_009)).to.equal(priceOf(fast, 1_000_000));
    expect(priceOf(fast, 1_000_010)).not.to.equal(priceOf(fast, 1_000_000));
    expect(priceOf(slow, 60_000 * 100_000)).to.equal(priceOf(fast, 10 * 100_000));
  });
});
