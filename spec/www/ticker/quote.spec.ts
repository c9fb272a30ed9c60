import { expect } from 'chai';
import { formatMilliseconds, formatShare, PriceFormat } from '../../../www/ticker/format.ts';
import { change, Quote } from '../../../www/ticker/quote.ts';

describe('a quote', () => {
  const at = (timestamp: number, price: number) => ({ symbol: 'BTC-USD', price, timestamp });

  it('follows the price and the change since the first price', () => {
    const quote = new Quote(at(0, 100));
    for (const price of [110, 90, 105]) quote.update(at(1, price));
    expect(quote).to.include({ price: 105, second: 1 });
    expect(quote.changeSinceOpening).to.deep.equal({ amount: 5, share: 0.05, direction: 'up' });
  });

  it('knows the change over a minute once a price is a minute old', () => {
    const quote = new Quote(at(0, 100));
    for (let second = 1; second < 60; second++) quote.update(at(second, 200));
    expect(quote.changeOverMinute(3)).to.equal(undefined);
    quote.update(at(60, 80));
    expect(quote.changeOverMinute(3)).to.include({ amount: -20, direction: 'down' });
  });

  it('knows the change over a minute at once if it is filled with past prices', () => {
    const quote = new Quote(at(100, 100));
    quote.fill([39, 41], [50, 60]);
    expect(quote.changeOverMinute(3)).to.include({ amount: 50, share: 1 });
    expect(quote.changeOverMinute(1)).to.equal(undefined);
  });

  it('writes no share as zero beside an amount that is not', () => {
    const shares = [change(42_000, 41_999.86), change(42_000, 42_002.1), change(1e12, 1e12 + 0.01), change(1, 1)];
    expect(shares.map(formatShare)).to.deep.equal(['<0.01%', '+0.01%', '<0.01%', '0.00%']);
  });

  it('labels an axis with as many decimals as its step has', () => {
    const format = new PriceFormat('BTC-USD', 2);
    const label = (price: number, step: number) => format.axisPrice(price, step);
    expect([
      label(42_010, 10),
      label(42_001, 1),
      label(42_000.5, 0.5),
      label(42_000.05, 0.05),
      label(95.005, 0.005),
      label(0.0812, 0.0001),
      label(0.00000012, 0.00000002),
    ]).to.deep.equal(['42,010', '42,001', '42,000.50', '42,000.05', '95.005', '0.0812', '0.00000012']);
  });

  it('counts a change in whole cents', () => {
    expect(change(0.1 + 0.2, 0.3)).to.include({ amount: 0, direction: 'none' });
  });

  it('is written with two decimals and a sign that is not a hyphen', () => {
    const format = new PriceFormat('BTC-USD', 2);
    expect(format.price(42_013.4)).to.equal('$42,013.40');
    const amounts = [change(100, 98.766), change(100, 101), change(1, 1)].map((each) => format.amount(each));
    expect(amounts).to.deep.equal(['−1.23', '+1.00', '0.00']);
    expect([change(100, 98.766), change(100, 101), change(1, 1)].map(formatShare)).to.deep.equal([
      '−1.23%',
      '+1.00%',
      '0.00%',
    ]);
    expect([0.42, 9.94, 9.96, 120.4, 11_048].map(formatMilliseconds)).to.deep.equal([
      ...['0.4 ms', '9.9 ms', '10 ms', '120 ms', '11.0 s'],
    ]);
  });

  it('is written in the currency of its symbol, or without one', () => {
    const texts = ['BTC-EUR', 'ETH-BTC', 'BTC-USDT', 'GOLD'].map((symbol) => new PriceFormat(symbol, 2).price(1234.5));
    expect(texts.map((text) => text.replace(/\s/g, ' '))).to.deep.equal([
      '€1,234.50',
      'BTC 1,234.50',
      '1,234.50',
      '1,234.50',
    ]);
  });

  it('has as many decimals as any price so far, two at least and eight at most', () => {
    const quote = new Quote({ symbol: 'DOGE-USD', price: 0.1, timestamp: 0 });
    const written = (price: number) => {
      quote.update({ symbol: 'DOGE-USD', price, timestamp: 1 });
      return quote.format.price(price);
    };
    expect([0.081, 0.08123, 0.08, 0.00000012, 1e-9].map(written)).to.deep.equal([
      '$0.081',
      '$0.08123',
      '$0.08000',
      '$0.00000012',
      '$0.00000000',
    ]);
    quote.update({ symbol: 'DOGE-USD', price: 0.10000001, timestamp: 2 });
    expect(quote.changeSinceOpening).to.include({ amount: 0.00000001, direction: 'up' });
  });
});
