import { expect } from 'chai';
import { formatMilliseconds, formatShare, PriceFormat } from '../../../www/ticker/format.ts';
import { change, Quote } from '../../../www/ticker/quote.ts';

const at = (timestamp: number, price: number, symbol = 'BTC-USD') => ({ symbol, price, timestamp });

describe('a quote', () => {
  it('has the newest price, and the change since the first price', () => {
    const quote = new Quote(at(0, 100));
    for (const price of [110, 90, 105]) quote.update(at(1, price));
    expect(quote).to.include({ price: 105, second: 1 });
    expect(quote.changeSinceOpening).to.deep.equal({ amount: 5, share: 0.05, direction: 'up' });
    expect(change(0.1 + 0.2, 0.3)).to.include({ amount: 0, direction: 'none' });
  });

  it('has the change over a minute once a price is a minute old, or once it is filled with past prices', () => {
    const quote = new Quote(at(0, 100));
    for (let second = 1; second < 60; second++) quote.update(at(second, 200));
    expect(quote.changeOverMinute(3)).to.equal(undefined);
    quote.update(at(60, 80));
    expect(quote.changeOverMinute(3)).to.include({ amount: -20, direction: 'down' });

    const filled = new Quote(at(100, 100));
    filled.fill([39, 41], [50, 60]);
    expect(filled.changeOverMinute(3)).to.include({ amount: 50, share: 1 });
    expect(filled.changeOverMinute(1)).to.equal(undefined);
  });

  it('is formatted with two decimals, a minus sign, and no share of zero beside another amount', () => {
    const format = new PriceFormat('BTC-USD', 2);
    expect(format.price(42_013.4)).to.equal('$42,013.40');
    const changes = [change(100, 98.766), change(100, 101), change(1, 1)];
    expect(changes.map((each) => format.amount(each))).to.deep.equal(['−1.23', '+1.00', '0.00']);
    expect(changes.map(formatShare)).to.deep.equal(['−1.23%', '+1.00%', '0.00%']);
    const small = [change(42_000, 41_999.86), change(42_000, 42_002.1), change(1e12, 1e12 + 0.01)];
    expect(small.map(formatShare)).to.deep.equal(['−<0.01%', '+0.01%', '+<0.01%']);
  });

  it('is formatted with as many decimals as any price so far, from two to eight', () => {
    const quote = new Quote(at(0, 0.1, 'DOGE-USD'));
    for (const [price, expected] of [
      [0.081, '$0.081'],
      [0.08123, '$0.08123'],
      [0.08, '$0.08000'],
      [0.00000012, '$0.00000012'],
      [1e-9, '$0.00000000'],
    ] as const) {
      quote.update(at(1, price, 'DOGE-USD'));
      expect(quote.format.price(price)).to.equal(expected);
    }
    quote.update(at(2, 0.10000001, 'DOGE-USD'));
    expect(quote.changeSinceOpening).to.include({ amount: 0.00000001, direction: 'up' });
  });

  it('is labelled on an axis with as many decimals as the step of the axis', () => {
    const format = new PriceFormat('BTC-USD', 2);
    for (const [price, step, expected] of [
      [42_010, 10, '42,010'],
      [42_001, 1, '42,001'],
      [42_000.5, 0.5, '42,000.50'],
      [42_000.05, 0.05, '42,000.05'],
      [95.005, 0.005, '95.005'],
      [0.00000012, 0.00000002, '0.00000012'],
    ] as const)
      expect(format.axisPrice(price, step)).to.equal(expected);
  });

  it('has latencies in milliseconds or seconds', () => {
    const texts = [0.42, 9.94, 9.96, 120.4, 11_048].map(formatMilliseconds);
    expect(texts).to.deep.equal(['0.4 ms', '9.9 ms', '10 ms', '120 ms', '11.0 s']);
  });
});
