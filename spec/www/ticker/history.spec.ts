import { expect } from 'chai';
import { History, type Point, RECENT, toCandles } from '../../../www/ticker/history.ts';

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
  for (const [title, added, [from, to], expected] of [
    ['keeps the last price of each second', '1:10 2:20 2:21', [0, 9], '1:10 2:21'],
    ['starts over from the second to which a clock was set back', '1:10 2:20 3:30 2:22', [0, 9], '1:10 2:22'],
    ['has in a window also one price before it, where the line starts', '1:10 2:20 3:30 4:40', [3, 3], '2:20 3:30'],
    ['is empty without prices', '', [0, 9], ''],
  ] as const) {
    it(title, () => {
      expect(print(history(added).between(from, to))).to.equal(expected);
    });
  }

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
  for (const [title, length, prices, expected] of [
    [
      'have the first, highest, lowest and last price of their period',
      5,
      '10:5 11:7 12:4 13:6 14:6 15:8 17:3',
      '10:5,7,4,6 15:8,8,3,3',
    ],
    ['omit periods without a price', 10, '10:2 31:3', '10:2,2,2,2 30:3,3,3,3'],
    ['without a length are the prices', 0, '10:2 31:3', '10:2,2,2,2 31:3,3,3,3'],
  ] as const) {
    it(title, () => {
      const candles = toCandles(parse(prices), length);
      const texts = candles.map(({ second, open, high, low, close }) => `${second}:${[open, high, low, close]}`);
      expect(texts.join(' ')).to.equal(expected);
    });
  }
});
