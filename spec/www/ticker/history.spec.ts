import { expect } from 'chai';
import { History, LONGEST_WINDOW } from '../../../www/ticker/history.ts';

/** Minimum time between two prices, in seconds, that counts as a gap. */
const GAP = 3;

function history(...entries: [second: number, price: number][]): History {
  const made = new History();
  for (const [second, price] of entries) made.add(second, price);
  return made;
}

describe('the price history of a chart', () => {
  const five = history([1, 10], [2, 20], [3, 30], [4, 40], [5, 50]);
  const late = history([0, 1], [5, 2], [15, 3]);
  for (const [title, made, [from, to, gap], seconds, prices] of [
    ['keeps the last price of each second', history([1, 10], [2, 20], [2, 21]), [0, 9, GAP], [1, 2], [10, 21]],
    [
      'starts over from the second to which a clock was set back',
      history([1, 10], [2, 20], [3, 30], [2, 22]),
      [0, 9, GAP],
      [1, 2],
      [10, 22],
    ],
    ['has in a window also one price before it, where the line starts', five, [3, 4, GAP], [2, 3, 4], [20, 30, 40]],
    ['is empty without prices', new History(), [0, 9, GAP], [], []],
    [
      'breaks the line at a gap, not at a late price',
      history([1, 10], [3, 30], [6, 60]),
      [0, 9, GAP],
      [1, 3, 4, 6],
      [10, 30, null, 60],
    ],
    ['does not break the line within a longer interval', late, [0, 15, 15], [0, 5, 15], [1, 2, 3]],
  ] as [string, History, [number, number, number], number[], (number | null)[]][]) {
    it(title, () => {
      expect(made.between(from, to, gap)).to.deep.equal({ seconds, prices });
    });
  }

  it('is filled with past prices, and keeps the prices that it has', () => {
    const made = history([3, 30], [7, 70]);
    made.fill([1, 2, 3, 4, 5, 6], [10, 20, -1, 40, 50, 60]);
    const expected = { seconds: [1, 2, 3, 4, 5, 6, 7], prices: [10, 20, 30, 40, 50, 60, 70] };
    expect(made.between(0, 9, GAP)).to.deep.equal(expected);
    made.fill([], []);
    expect(made.size).to.equal(7);
    const seconds = Array.from({ length: 5000 }, (_, index) => index);
    made.fill(seconds, seconds);
    expect(made.size).to.equal(2 * LONGEST_WINDOW);
  });

  it('has the price of a second if a price arrived shortly before', () => {
    const made = history([10, 1], [12, 2], [20, 3]);
    const prices = [9, 10, 11, 12, 14, 15, 20, 22, 23].map((second) => made.at(second, GAP));
    expect(prices).to.deep.equal([undefined, 1, 1, 2, 2, undefined, 3, 3, undefined]);
  });

  it('is bounded, and always has the longest window', () => {
    const made = new History();
    for (let second = 0; second < 100_000; second++) {
      made.add(second, second);
      if (made.size > 2 * LONGEST_WINDOW) expect.fail(`holds ${made.size} prices`);
    }
    const { seconds } = made.between(99_999 - LONGEST_WINDOW, 99_999, GAP);
    expect(seconds.length).to.be.at.least(LONGEST_WINDOW + 1);
  });
});
