import { expect } from 'chai';
import type { QueueHistory as HistoryPart } from '../../../www/client/queue-api.ts';
import { beginningOf, QueueHistory } from '../../../www/tasks/queue-history.ts';

/** Returns seconds up to and including the second `newest`, each with the same number in all columns. */
function part(newest: number, ...values: number[]): HistoryPart {
  const column = () => [...values];
  const columns = { accepted: column(), completed: column(), failed: column(), retried: column(), depth: column() };
  return { end: newest, seconds: values.length, ...columns, refused: column(), starts: [newest - 5] };
}

function historyOf(...parts: HistoryPart[]): QueueHistory {
  const history = new QueueHistory(1, 900);
  for (const each of parts) history.add(each);
  return history;
}

function known(history: QueueHistory, length: number) {
  const { times, completed, depth } = history.periods(900, length);
  return times.flatMap((time, index) =>
    completed[index] == null ? [] : [{ time, completed: completed[index], depth: depth[index] }],
  );
}

describe('the queue history of the board', () => {
  it('has the mean rate and the greatest depth of each period', () => {
    const history = historyOf(part(1_009, 1, 2, 3, 4, 5, 6));
    expect(known(history, 5)).to.deep.equal([
      { time: 1_005, completed: 1, depth: 1 },
      { time: 1_010, completed: 4, depth: 6 },
    ]);
    expect([history.starts, history.sum('completed', 3), history.growth(4)]).to.deep.equal([[1_004], 15, 1]);
  });

  it('adds newer seconds to a period, and drops seconds older than 15 minutes', () => {
    const history = historyOf(part(1_999, ...Array(900).fill(1)), part(2_001, 9, 9));
    const periods = known(history, 5);
    expect(periods).to.have.length(900 / 5);
    expect(periods[0]).to.deep.equal({ time: 1_110, completed: 1, depth: 1 });
    expect(periods.at(-1)).to.deep.equal({ time: 2_002, completed: 9, depth: 9 });
    history.add(part(2_001));
    expect(history.end).to.equal(2_002);
    expect(known(history, 5)).to.deep.equal(periods);
  });

  it('has minutes, whose rates are those of a second', () => {
    const history = new QueueHistory(60, 1_440);
    history.add({ ...part(6_000, 60, 120, 180), minutes: 3 });
    history.add({ ...part(6_060, 240), minutes: 1 });
    const { times, completed, depth } = history.periods(300, 60);
    expect([times.at(-1), completed]).to.deep.equal([6_120, [null, 1, 2, 3, 4]]);
    expect(depth).to.deep.equal([null, 60, 120, 180, 240]);
    expect(history.periods(240, 120).completed).to.deep.equal([1.5, 3.5]);
  });

  it('has the newest rate, and the newest depth', () => {
    const history = historyOf();
    const newest = () => [history.newest('completed', 5), history.newest('depth', 1)];
    expect(newest()).to.deep.equal([null, null]);
    for (const [added, expected] of [
      [part(1_009, 9, 1, 2, 3, 4, 5), [3, 5]],
      [part(1_010, 9), [4.6, 9]],
      [part(1_019), [null, null]],
    ] as const) {
      history.add(added);
      expect(newest()).to.deep.equal(expected);
    }
  });

  it('is replaced by a part that does not continue it', () => {
    const history = historyOf(part(999, 1, 1, 1, 1, 1), part(1_014, 3, 3, 3, 3, 3));
    expect(known(history, 5)).to.deep.equal([{ time: 1_015, completed: 3, depth: 3 }]);
  });

  it('asks for what is missing, and for all if the clock of the service was set back', async () => {
    const history = historyOf();
    const asked: (number | undefined)[] = [];
    const answers = [part(4_999, 1, 1, 1, 1, 1), part(5_000, 1), part(3_999), part(3_999, 2, 2, 2, 2, 2)];
    const read = async ({ since }: { since?: number }) => {
      asked.push(since);
      return answers.shift() as HistoryPart;
    };
    for (let i = 0; i < 3; i++) await history.extend(read);
    expect(asked).to.deep.equal([undefined, 4_999, 5_000, undefined]);
    expect(known(history, 5)).to.deep.equal([{ time: 4_000, completed: 2, depth: 2 }]);
  });

  it('tells since when a value fits, also in the minutes before, with interruptions of up to a minute', () => {
    const seconds = historyOf();
    const minutes = new QueueHistory(60, 1_440);
    const since = () => beginningOf({ seconds, minutes }, 'failed', (count) => count > 0);
    expect(since()).to.equal(undefined);
    seconds.add(part(6_099, ...Array(300).fill(0), 1, ...Array(59).fill(0), 1, ...Array(40).fill(0)));
    expect(since()).to.equal(5_999_000);
    seconds.add(part(6_999, ...Array(900).fill(1)));
    expect(since()).to.equal(6_100_000);
    minutes.add({ ...part(6_900, 0, 5, 5, ...Array(15).fill(5)), minutes: 18 });
    expect(since()).to.equal(5_940_000);
    // The first known second of a value is its beginning, and not that of its minute.
    const fresh = historyOf(part(6_030, 1, 1, 1));
    minutes.add({ ...part(6_000, 3), minutes: 1 });
    expect(beginningOf({ seconds: fresh, minutes }, 'failed', (count) => count > 0)).to.equal(6_028_000);
    seconds.add(part(7_060, ...Array(61).fill(0)));
    expect(since()).to.equal(undefined);
  });
});
