import { expect } from 'chai';
import { HISTORY_SECONDS, type HistoryPart, QueueHistory } from '../../../www/tasks/queue-history.ts';

/** Returns `seconds` seconds up to `end`, each with the same number in all columns. */
function part(end: number, ...values: number[]): HistoryPart {
  const column = () => [...values];
  const columns = { accepted: column(), completed: column(), failed: column(), retried: column(), depth: column() };
  return { end, seconds: values.length, ...columns, refused: column(), starts: [] };
}

/** Returns the periods that have numbers. */
function known(history: QueueHistory, length: number) {
  const { times, completed, depth } = history.periods(length);
  return times.flatMap((time, index) =>
    completed[index] == null ? [] : [{ time, completed: completed[index], depth: depth[index] }],
  );
}

describe('the queue history of the charts', () => {
  it('has the mean rate and the greatest depth of each period', () => {
    const history = new QueueHistory();
    history.add(part(1_010, 1, 2, 3, 4, 5, 6));
    expect(known(history, 5)).to.deep.equal([
      { time: 1_005, completed: 1, depth: 1 },
      { time: 1_010, completed: 4, depth: 6 },
    ]);
  });

  it('adds newer seconds to a period, and drops seconds older than 15 minutes', () => {
    const history = new QueueHistory();
    history.add(part(2_000, ...Array(HISTORY_SECONDS).fill(1)));
    history.add(part(2_002, 9, 9));
    const periods = known(history, 5);
    expect(periods).to.have.length(HISTORY_SECONDS / 5);
    expect(periods[0]).to.deep.equal({ time: 1_110, completed: 1, depth: 1 });
    expect(periods.at(-1)).to.deep.equal({ time: 2_002, completed: 9, depth: 9 });
    history.add(part(2_002));
    expect(history.end).to.equal(2_002);
    expect(known(history, 5)).to.deep.equal(periods);
  });

  it('has the newest rate, over five seconds, and the newest depth', () => {
    const history = new QueueHistory();
    expect(history.newest().completed).to.equal(null);
    history.add(part(1_010, 9, 1, 2, 3, 4, 5));
    expect(history.newest()).to.include({ completed: 3, depth: 5 });
    history.add(part(1_012, 9));
    expect(history.newest()).to.include({ completed: 5.25, depth: 9 });
    history.add(part(1_020));
    expect(history.newest()).to.include({ completed: null, depth: null });
  });

  it('has a gap where the service was down', () => {
    const history = new QueueHistory();
    history.add(part(1_000, 1, 1, 1, 1, 1));
    history.add(part(1_015, 3, 3, 3, 3, 3));
    expect(known(history, 5).map(({ time }) => time)).to.deep.equal([1_000, 1_015]);
    history.add(part(9_015, 4, 4, 4, 4, 4));
    expect(known(history, 5)).to.deep.equal([{ time: 9_015, completed: 4, depth: 4 }]);
  });

  it('starts over if the clock of the service was set back', () => {
    const history = new QueueHistory();
    history.add(part(5_000, 1, 1, 1, 1, 1));
    history.add(part(4_000, 2, 2, 2, 2, 2));
    expect(known(history, 5)).to.deep.equal([{ time: 4_000, completed: 2, depth: 2 }]);
  });
});
