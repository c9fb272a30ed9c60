import { expect } from 'chai';
import { formatMilliseconds, formatShare, PriceFormat } from '../../../www/ticker/format.ts';
import { History, type Point, RECENT, toCandles } from '../../../www/ticker/history.ts';
import { change, Quote } from '../../../www/ticker/quote.ts';

/** Minimum time between two prices, in seconds, that counts as a gap. */
const GAP = 3;

/** Returns the prices of a text such as `1:10 2:20`, in which each price follows its second. */
function parse(text: string): Point[] {
  const entries = text.split(' ').filter(Boolean);
  return entries.map((entry) => entry.split(':').map(Number)).map(([second = 0, price = 0]) => ({ second, price }));
}

const print = (points: readonly Point[]) => points.map(({ second, price }) => `${second}:${price}`).join(' ');

function history(text: string): History {
  const made = new History(RECENT, 1);
  for (const { second, price } of parse(text)) made.add(second, price);
  return made;
}

describe('the price history of a chart', () => {
  it('has in a window the last price of each second, and one price before it, where the line starts', () => {
    for (const [added, from, to, expected] of [
      ['1:10 2:20 2:21', 0, 9, '1:10 2:21'],
      // The clock was set back.
      ['1:10 2:20 3:30 2:22', 0, 9, '1:10 2:22'],
      ['1:10 2:20 3:30 4:40', 3, 3, '2:20 3:30'],
      ['', 0, 9, ''],
    ] as const)
      expect(print(history(added).between(from, to))).to.equal(expected);
  });

  it('has gaps of a least length, and of more than two periods', () => {
    expect([history('').gap(GAP), new History(RECENT, 60).gap(GAP)]).to.deep.equal([GAP, 150]);
  });

  it('is filled with past prices, and keeps the prices that it has', () => {
    const made = history('3:30 7:70');
    made.fill([1, 2, 3, 4, 5, 6], [10, 20, -1, 40, 50, 60]);
    expect(print(made.between(0, 9))).to.equal('1:10 2:20 3:30 4:40 5:50 6:60 7:70');
    made.fill([], []);
    expect(made.size).to.equal(7);
    const seconds = Array.from({ length: 5000 }, (_, index) => index);
    made.fill(seconds, seconds);
    expect(made.size).to.equal(2 * RECENT);
  });

  it('has the price of a second if a price arrived shortly before', () => {
    const made = history('10:1 12:2 20:3');
    const prices = [9, 10, 11, 12, 14, 15, 20, 22, 23].map((second) => made.at(second, GAP));
    expect(prices).to.deep.equal([undefined, 1, 1, 2, 2, undefined, 3, 3, undefined]);
  });

  it('is bounded, and always has the longest window', () => {
    const made = new History(RECENT, 1);
    for (let second = 0; second < 100_000; second++) {
      made.add(second, second);
      if (made.size > 2 * RECENT) expect.fail(`holds ${made.size} prices`);
    }
    expect(made.between(99_999 - RECENT, 99_999).length).to.be.at.least(RECENT + 1);
  });
});

describe('candles', () => {
  it('have the first, highest, lowest and last price of each period with prices, or are the prices if they have no length', () => {
    for (const [length, prices, expected] of [
      [5, '10:5 11:7 12:4 13:6 14:6 15:8 17:3', '10:5,7,4,6 15:8,8,3,3'],
      [10, '10:2 31:3', '10:2,2,2,2 30:3,3,3,3'],
      [0, '10:2 31:3', '10:2,2,2,2 31:3,3,3,3'],
    ] as const) {
      const candles = toCandles(parse(prices), length);
      const texts = candles.map(({ second, open, high, low, close }) => `${second}:${[open, high, low, close]}`);
      expect(texts.join(' ')).to.equal(expected);
    }
  });
});

const at = (timestamp: number, price: number, symbol = 'BTC-USD') => ({ symbol, price, timestamp });

describe('a quote', () => {
  const updated = (quote: Quote, ...prices: [second: number, price: number][]) => {
    for (const [second, price] of prices) quote.update(at(second, price));
    quote.shown = quote.latest;
    return quote;
  };

  it('has the change of the shown price over a range, or since the first price if that is later', () => {
    const quote = updated(new Quote(at(0, 100), () => GAP), [1, 110], [1, 90], [1, 105]);
    quote.update(at(2, 500));
    expect(quote.latest.price).to.equal(500);
    expect(quote.changeOver(60)).to.deep.equal({ amount: 5, share: 0.05, direction: 'up', since: 0 });
    expect(change(0.1 + 0.2, 0.3)).to.include({ amount: 0, direction: 'none' });
    updated(quote, [60, 80]);
    expect(quote.changeOver(60)).to.include({ amount: -20, direction: 'down', since: undefined });
  });

  it('has the change from past prices once it is filled, and not from a price before a gap', () => {
    for (const [second, expected] of [
      [39, { amount: 50, share: 1, since: undefined }],
      [36, { amount: 40, since: 41 }],
    ] as const) {
      const filled = new Quote(at(100, 100), () => GAP);
      filled.fill(900, [second, 41], [50, 60]);
      expect(filled.changeOver(60)).to.include(expected);
    }
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
    const quote = new Quote(at(0, 0.1, 'DOGE-USD'), () => GAP);
    const prices = [0.081, 0.08123, 0.08, 0.00000012, 1e-9].map((price) => {
      quote.update(at(1, price, 'DOGE-USD'));
      return quote.format.price(price);
    });
    expect(prices).to.deep.equal(['$0.081', '$0.08123', '$0.08000', '$0.00000012', '$0.00000000']);
    updated(quote, [2, 0.10000001]);
    expect(quote.changeOver(60)).to.include({ amount: 0.00000001, direction: 'up' });
  });

  it('is formatted in its currency, or as a plain number if its symbol names none', () => {
    for (const [symbol, price, expected] of [
      ['XRP-EUR', 0.5123, '€0.5123'],
      ['ETH-BTC', 0.05123, 'BTC\u00a00.05123'],
      ['GOLD', 1_999.5, '1,999.50'],
      ['B', 1e12, '1,000,000,000,000.00'],
    ] as const)
      expect(new Quote(at(0, price, symbol), () => GAP).format.price(price)).to.equal(expected);
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
