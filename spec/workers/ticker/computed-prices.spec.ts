import { expect } from 'chai';
import { defaultSymbols } from '../../../workers/shared/symbols.ts';
import { nextPrice, priceWalk, seededPrices } from '../../../workers/ticker/computed-prices.ts';

const small = [
  { symbol: 'DOGE-USD', price: 0.08123, decimals: 5 },
  { symbol: 'SHIB-USD', price: 0.00002345, decimals: 8 },
];

describe('the price walk', () => {
  it('multiplies each price by (1 + f), where f is drawn from -0.001 to 0.001, and rounds it', () => {
    for (const [before, draw, after] of [
      [42_000, 0, 41_958],
      [42_000, 0.25, 41_979],
      [42_000, 0.5, 42_000],
      [42_000, 1 - 2 ** -53, 42_042],
      [95, 0.75, 95.05],
      [0.01, 0, 0.01],
      // 35 * 0.01 is more than 0.35.
      [0.35, 0.5, 0.35],
    ] as const)
      expect(nextPrice(before, () => draw)).to.equal(after);
    expect(priceWalk(small, () => 0).prices(0, [0.08123, 0.00002345])).to.deep.equal([0.08115, 0.00002343]);
  });

  it('continues from the last known prices, and draws a new random number for each price', () => {
    const draws = [0, 0.5, 1 - 2 ** -53];
    const walk = priceWalk(defaultSymbols, () => draws.shift() ?? 0.5);
    expect(walk.prices(0, [42_000, 2_500, 95])).to.deep.equal([41_958, 2_500, 95.09]);
    expect(draws).to.deep.equal([]);
    expect(walk.prices(0, [420_000, 25_000, 950])).to.deep.equal([420_000, 25_000, 950]);
    const [one, other] = [priceWalk(defaultSymbols), priceWalk(defaultSymbols)].map((each) =>
      each.prices(0, [1e9, 1e9, 1e9]),
    );
    expect(one, 'random by default').to.not.deep.equal(other);
  });
});

describe('seeded prices', () => {
  const seeded = (text: string) => seededPrices(text, 1000, defaultSymbols);

  it('move by 0.1 % at most from tick to tick, within 10 % of the initial prices, and do not depend on a suspension or restart', () => {
    const start = 1_700_000_000_000;
    for (const seed of ['a', 'b', 'c', 'd', 'e']) {
      const [prices, suspended] = [seeded(seed), seeded(seed)];
      let before = prices.prices(start);
      expect(suspended.prices(start)).to.deep.equal(before);
      for (let tick = 1; tick <= 200; tick++) {
        const values = prices.prices(start + tick * 1000);
        for (const [index, { price }] of defaultSymbols.entries()) {
          const [from = 0, after = 0] = [before[index], values[index]];
          // Rounding to two decimals adds half a cent at most.
          expect(Math.abs(after - from)).to.be.at.most(from * 0.001 + 0.005 + 1e-9);
          expect(after).to.equal(Number(after.toFixed(2)));
          expect(after / price).to.be.within(0.9, 1.1);
        }
        before = values;
      }
      expect(suspended.prices(start + 200_000)).to.deep.equal(before);
    }
  });

  it('move at nearly every tick, each symbol independently, and have the decimals of the symbol', () => {
    const prices = seeded('a seed');
    const moves = Array.from({ length: 100 }, (_, tick) => {
      const before = [...prices.prices((tick - 1) * 1000)];
      return Array.from(prices.prices(tick * 1000), (value, index) => Math.sign(value - (before[index] ?? 0))).join();
    });
    expect(new Set(moves).size).to.be.greaterThan(6);
    const [price = 0] = seededPrices('x', 1000, small).prices(1_700_000_000_000);
    expect(price).to.equal(Number(price.toFixed(5)));
    expect(price).to.not.equal(Number(price.toFixed(2)));
  });
});
