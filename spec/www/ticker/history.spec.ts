import { expect } from 'chai';
import { History, LONGEST_WINDOW } from '../../../www/ticker/history.ts';

/** Minimum time between two prices, in seconds, that counts as a gap. */
const GAP = 3;

function history(...entries: [second: number, price: number][]): History {
  const made = new History();
  for (const [second, price] of entries) made.add(second, price);
  return made;
}

describe('a history', () => {
  it('keeps one price a second, the later of two', () => {
    expect(history([1, 10], [2, 20], [2, 21]).between(0, 9, GAP)).to.deep.equal({ seconds: [1, 2], prices: [10, 21] });
  });

  it('starts over from where a clock was set back to', () => {
    expect(history([1, 10], [2, 20], [3, 30], [2, 22]).between(0, 9, GAP)).to.deep.equal({
      seconds: [1, 2],
      prices: [10, 22],
    });
  });

  it('yields what lies in a window, and one price before it for the line to start from', () => {
    const made = history([1, 10], [2, 20], [3, 30], [4, 40], [5, 50]);
    expect(made.between(3, 4, GAP)).to.deep.equal({ seconds: [2, 3, 4], prices: [20, 30, 40] });
    expect(new History().between(0, 9, GAP)).to.deep.equal({ seconds: [], prices: [] });
  });

  it('breaks the line where prices are missing, not where one came late', () => {
    expect(history([1, 10], [3, 30], [6, 60]).between(0, 9, GAP)).to.deep.equal({
      seconds: [1, 3, 4, 6],
      prices: [10, 30, null, 60],
    });
  });

  it('breaks the line only where the gap of a longer interval is missing', () => {
    const made = history([0, 1], [5, 2], [15, 3]);
    expect(made.between(0, 15, 15).prices).to.deep.equal([1, 2, 3]);
    expect(made.between(0, 15, 10).prices).to.deep.equal([1, 2, null, 3]);
  });

  it('is filled with past prices, and keeps those that it knows', () => {
    const made = history([3, 30], [7, 70]);
    made.fill([1, 2, 3, 4, 5, 6], [10, 20, -1, 40, 50, 60]);
    expect(made.between(0, 9, GAP)).to.deep.equal({
      seconds: [1, 2, 3, 4, 5, 6, 7],
      prices: [10, 20, 30, 40, 50, 60, 70],
    });
    made.fill([], []);
    expect(made.size).to.equal(7);
    const seconds = Array.from({ length: 5000 }, (_, index) => index);
    made.fill(seconds, seconds);
    expect(made.size).to.equal(2 * LONGEST_WINDOW);
  });

  it('knows the price that held at a second, if one came shortly before', () => {
    const made = history([10, 1], [12, 2], [20, 3]);
    expect([9, 10, 11, 12, 14, 15, 20, 22, 23].map((second) => made.at(second, GAP))).to.deep.equal([
      undefined,
      1,
      1,
      2,
      2,
      undefined,
      3,
      3,
      undefined,
    ]);
  });

  it('stays bounded, and always holds the longest window', () => {
    const made = new History();
    for (let second = 0; second < 100_000; second++) {
      made.add(second, second);
      if (made.size > 2 * LONGEST_WINDOW) expect.fail(`holds ${made.size} prices`);
    }
    const { seconds } = made.between(99_999 - LONGEST_WINDOW, 99_999, GAP);
    expect(seconds.length).to.be.at.least(LONGEST_WINDOW + 1);
  });
});
