import { expect } from 'chai';
import fc from 'fast-check';
import { QueueHistory } from '../../../main/tasks/monitor/queue-history.ts';
import type { TaskEvent } from '../../../main/tasks/queue/queue.ts';

const START = 1_790_000_000;

/** A history on a clock that the spec sets, in seconds after the start. */
function startHistory() {
  let ms = START * 1000;
  const history = new QueueHistory(() => ms);
  const record = (...events: TaskEvent['event'][]) => {
    for (const event of events) history.record({ event });
  };
  const setClock = (seconds: number) => {
    ms = Math.round((START + seconds) * 1000);
  };
  return { history, record, setClock };
}

describe('the history of the queue', () => {
  it('has a number of each kind of event for each complete second', () => {
    const { history, record, setClock } = startHistory();
    record('accepted', 'accepted', 'started', 'progress', 'retrying');
    setClock(1.001);
    history.advance(2);
    record('completed', 'failed', 'cancelled');
    setClock(2);
    history.advance(0);
    record('accepted');
    setClock(2.999);
    history.advance(1);
    expect(history.read()).to.deep.equal({
      end: START + 1,
      seconds: 2,
      accepted: [2, 0],
      completed: [0, 1],
      failed: [0, 1],
      retried: [1, 0],
      depth: [2, 0],
    });
  });

  it('is empty before the first complete second', () => {
    const { history, record } = startHistory();
    record('accepted');
    history.advance(1);
    expect(history.read()).to.deep.include({ end: START - 1, seconds: 0, accepted: [], depth: [] });
  });

  it('leaves out the seconds up to `since`', () => {
    const { history, record, setClock } = startHistory();
    for (let second = 1; second <= 5; second++) {
      for (let event = 0; event < second; event++) record('completed');
      setClock(second);
      history.advance(second);
    }
    expect(history.read(START + 2)).to.deep.include({ end: START + 4, seconds: 2, completed: [4, 5], depth: [4, 5] });
    expect(history.read(START + 4)).to.deep.include({ end: START + 4, seconds: 0, completed: [] });
    expect(history.read(START + 1000)).to.deep.include({ seconds: 0, depth: [] });
    expect(history.read(0)).to.deep.include({ seconds: 5, completed: [1, 2, 3, 4, 5] });
  });

  it('keeps 900 seconds', () => {
    const { history, record, setClock } = startHistory();
    for (let second = 1; second <= 1000; second++) {
      record('accepted');
      setClock(second);
      history.advance(second);
    }
    const { end, seconds, accepted, depth } = history.read();
    expect({ end, seconds }).to.deep.equal({ end: START + 999, seconds: 900 });
    expect(accepted).to.deep.equal(Array(900).fill(1));
    expect(depth).to.deep.equal(Array.from({ length: 900 }, (_, index) => 101 + index));
  });

  it('counts what happened before a stall of the event loop in the second in which the stall began', () => {
    const { history, record, setClock } = startHistory();
    record('accepted', 'accepted');
    setClock(4.2);
    history.advance(7);
    expect(history.read()).to.deep.include({ end: START + 3, accepted: [2, 0, 0, 0], depth: [7, 7, 7, 7] });
  });

  it('is idle for the time that a clock set forward skips', () => {
    const { history, record, setClock } = startHistory();
    record('accepted');
    setClock(1e9);
    history.advance(3);
    const { end, seconds, accepted, depth } = history.read();
    expect({ end, seconds }).to.deep.equal({ end: START + 1e9 - 1, seconds: 900 });
    expect(accepted).to.deep.equal([1, ...Array(899).fill(0)]);
    expect(depth).to.deep.equal(Array(900).fill(3));
  });

  it('goes on at once after the clock was set back', () => {
    const { history, record, setClock } = startHistory();
    record('accepted');
    setClock(1);
    history.advance(1);
    record('completed');
    setClock(-3600);
    history.advance(0);
    expect(history.read()).to.deep.include({ end: START - 3601, seconds: 1, accepted: [1] });
    setClock(-3599);
    history.advance(0);
    expect(history.read()).to.deep.include({ end: START - 3600, accepted: [1, 0], completed: [0, 1] });
  });

  it('loses and invents no event, however the clock moves', () => {
    const step = fc.record({ events: fc.nat(5), seconds: fc.double({ min: -3, max: 5, noNaN: true }) });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 100 }), (steps) => {
        const { history, record, setClock } = startHistory();
        let [clock, recorded] = [0, 0];
        for (const { events, seconds } of steps) {
          for (let event = 0; event < events; event++) record('completed');
          recorded += events;
          clock += seconds;
          setClock(clock);
          history.advance(0);
        }
        setClock(clock + 5);
        history.advance(0);
        const { seconds, ...columns } = history.read();
        expect(columns.completed.reduce((sum, count) => sum + count, 0)).to.equal(recorded);
        for (const name of ['accepted', 'completed', 'failed', 'retried', 'depth'] as const) {
          expect(columns[name]).to.have.length(seconds);
        }
      }),
    );
  });
});
