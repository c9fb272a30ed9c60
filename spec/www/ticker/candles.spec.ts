import { expect } from 'chai';
import { toCandles } from '../../../www/ticker/candles.ts';

describe('candles', () => {
  it('have the first, highest, lowest and last price of their period', () => {
    const stretch = { seconds: [10, 11, 12, 13, 14, 15, 17], prices: [5, 7, 4, 6, 6, 8, 3] };
    expect(toCandles(stretch, 5, 10)).to.deep.equal({
      seconds: [12.5, 17.5],
      prices: [6, 3],
      candles: { length: 5, opens: [5, 8], highs: [7, 8], lows: [4, 3] },
    });
  });

  it('omit earlier prices, gaps, and periods without a price', () => {
    const stretch = { seconds: [9, 10, 11, 31], prices: [1, 2, null, 3] };
    expect(toCandles(stretch, 10, 10)).to.deep.equal({
      seconds: [15, 35],
      prices: [2, 3],
      candles: { length: 10, opens: [2, 3], highs: [2, 3], lows: [2, 3] },
    });
    expect(toCandles({ seconds: [], prices: [] }, 5, 0).seconds).to.deep.equal([]);
  });
});
