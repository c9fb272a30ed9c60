import { mock } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { expect } from 'chai';
import { DispatchMetrics } from '../../main/tasks/dispatch/dispatcher.ts';
import type { LiveCounts } from '../../main/tasks/queue.ts';
import { queueHistory } from '../../main/tasks/queue-history.ts';
import { createQueueMonitor } from '../../main/tasks/queue-monitor.ts';
import { Histogram, TASK_DURATION_BOUNDS } from '../../workers/shared/histogram.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { range } from '../support/store.ts';

const START = 1_790_000_000;
const NO_ENDS = { completed: 0, retried: 0, failed: 0, dead: 0, dropped: 0, refused: 0 };
const NO_COUNTS = { accepted: 0, ...NO_ENDS, waiting: 0, limited: 0, retrying: 0, inFlight: 0 } as LiveCounts;

/** Starts a monitor, on a clock and with totals that the spec changes. */
function startMonitor() {
  const clock = new ManualClock(START * 1000 + 400);
  const totals = { ...NO_COUNTS };
  const saved: string[] = [];
  const queue = {
    ...{ isPaused: false, pausedAt: undefined, refused: { count: 0, lastAt: undefined } },
    store: { saveHistory: async (_: number, text: string) => void saved.push(text) },
    counts: async (): Promise<LiveCounts> => ({ ...totals }),
  };
  const { attempts } = new DispatchMetrics(['sum']);
  const [waits, durations] = [new Histogram(TASK_DURATION_BOUNDS), new Histogram(TASK_DURATION_BOUNDS)];
  const problems: Record<string, string | undefined> = {};
  const monitor = createQueueMonitor({
    queue,
    pool: { threads: 2, overlap: 4, busy: 1, durations, threadOf: () => undefined },
    dispatcher: { metrics: { waits, attempts } },
    bounds: { maxLength: 100, maxBytes: 100_000 },
    prefetch: 5,
    problems: [() => problems.threads, () => problems.rows],
    clock,
  });
  monitor.start();
  const advance = async (ms: number) => {
    clock.advance(ms);
    await setImmediate();
  };
  return { monitor, attempts, queue, saved, totals, problems, waits, advance };
}

describe('the monitor of the queue', () => {
  it('tells the rate, the share of failures and the percentiles of each action', async () => {
    const { monitor, attempts, advance } = startMonitor();
    const { outcomes, waits, durations } = attempts.of('sum');
    for (const outcome of ['completed', 'retried', 'failed', 'cancelled']) outcomes.count(outcome);
    waits.observe(0.3);
    durations.observe(3);
    const actions = monitor.actions(300);
    expect(actions.get('sum')).to.include({ per_second: 0.133, failure_share: 0.5 });
    expect(actions.get('sum')?.waiting?.p95).to.be.within(0.25, 0.5);
    expect(actions.get('sum')?.running?.p95).to.be.within(2.5, 5);
    const nothing = { per_second: 0, failure_share: null, waiting: null, running: null };
    expect(actions.get('other')).to.deep.equal(nothing);
    await advance(300_000);
    expect(monitor.actions(300).get('sum')).to.deep.equal(nothing);
    // Longer periods still have the attempts, and cover the time since the start.
    expect(monitor.actions(900).get('sum')).to.include({ per_second: 0.0133, failure_share: 0.5 });
    expect([300, 900, 86_400].map((seconds) => monitor.coveredSeconds(seconds as 300))).to.deep.equal([275, 300, 300]);
    await advance(600_000);
    expect(monitor.actions(900).get('sum')).to.deep.equal(nothing);
    expect(monitor.actions(3_600).get('sum')?.running?.p95).to.be.within(2.5, 5);
  });

  it('counts time rather than ticks, of which some are missed while the machine is suspended', async () => {
    const { monitor, attempts, advance } = startMonitor();
    await advance(600);
    for (let count = 0; count < 90; count++) attempts.of('sum').outcomes.count('completed');
    await monitor.stop();
    await advance(200_000);
    expect(monitor.coveredSeconds(900)).to.equal(201);
    expect(monitor.actions(900).get('sum')).to.include({ per_second: 0.448 });
  });

  it('adds what a failed count missed to the history after the next one', async () => {
    const { monitor, queue, totals, advance } = startMonitor();
    await advance(0);
    const { counts } = queue;
    queue.counts = () => Promise.reject(new Error('away'));
    totals.accepted = 2;
    await advance(2600);
    expect(monitor.history()).to.deep.include({ seconds: 0 });
    queue.counts = counts;
    await advance(1000);
    expect(monitor.history()).to.deep.include({ end: START + 3, accepted: [2, 0, 0, 0] });
  });

  it('counts once at a time, however long it takes', async () => {
    const { queue, totals, advance, monitor } = startMonitor();
    await advance(0);
    const answer = Promise.withResolvers<LiveCounts>();
    const { mock: counting } = mock.method(queue, 'counts', () => answer.promise);
    await advance(5000);
    expect(counting.callCount()).to.equal(1);
    answer.resolve({ ...totals, accepted: 1 });
    await advance(0);
    await advance(1000);
    expect([counting.callCount(), monitor.history().accepted]).to.deep.equal([2, [1, 0, 0, 0, 0, 0]]);
  });

  it('saves the history once a minute and at the stop', async () => {
    const { monitor, queue, saved, advance } = startMonitor();
    await advance(125_000);
    expect(saved).to.have.length(2);
    const { saveHistory } = queue.store;
    queue.store.saveHistory = () => Promise.reject(new Error('the disk is full'));
    await advance(60_000);
    queue.store.saveHistory = saveHistory;
    await monitor.stop();
    expect(JSON.parse(saved[2] as string).series[0].columns.depth).to.have.length(185);
  });

  it('reports since when no task can be processed, and the first reason', async () => {
    const { monitor, problems, advance } = startMonitor();
    await advance(600);
    for (const [threads, rows, ms, reason, since] of [
      [undefined, 'disk full', 1000, 'disk full', 2],
      [undefined, 'disk full', 5000, 'disk full', 2],
      ['the threads do not start', 'disk full', 1000, 'the threads do not start', 2],
      [undefined, undefined, 1000],
      [undefined, 'disk full', 1000, 'disk full', 10],
    ] as const) {
      Object.assign(problems, { threads, rows });
      await advance(ms);
      expect(monitor.status().stalled).to.deep.equal(reason ? { reason, since: START + since } : null);
    }
  });

  it('checks and counts nothing more once it stops, also while the history is being saved', async () => {
    const { monitor, problems, queue, advance } = startMonitor();
    problems.rows = 'disk full';
    queue.counts = () => expect.fail('counted');
    const written = Promise.withResolvers<undefined>();
    queue.store.saveHistory = () => written.promise;
    const stopped = monitor.stop();
    await advance(10_000);
    written.resolve(undefined);
    await stopped;
    await advance(10_000);
    expect(monitor.status().stalled).to.equal(null);
  });

  it('has the percentiles of the last five minutes', async () => {
    const { monitor, waits, advance } = startMonitor();
    const percentiles = () => monitor.status().latency.waiting;
    await advance(1_000_000);
    expect(percentiles()).to.equal(null);
    waits.observe(20);
    await advance(269_000);
    expect(percentiles()?.p50).to.be.within(10, 30);
    waits.observe(0.3);
    await advance(31_000);
    expect(percentiles()?.p99).to.be.within(0.25, 0.5);
  });
});

/** A history whose totals the spec changes, on a clock in seconds after the start. */
function startHistory(initial: Partial<LiveCounts> = {}, saved?: string, at = 0) {
  const history = queueHistory((START + at) * 1000, saved);
  const totals = { ...NO_COUNTS, ...initial };
  const advance = (seconds: number, changed: Partial<LiveCounts> = {}) =>
    history.advance({ ...Object.assign(totals, changed) }, Math.round((START + seconds) * 1000));
  advance(at);
  return { history, advance };
}

describe('the history of the queue', () => {
  it('has a number of each kind of event for each complete second', () => {
    const { history, advance } = startHistory();
    advance(1.001, { accepted: 4, retried: 1, waiting: 1, limited: 1, retrying: 1, inFlight: 1 });
    advance(2, { completed: 1, failed: 1, dead: 1, cancelled: 2, waiting: 0, limited: 0, retrying: 0, inFlight: 0 });
    advance(2.999, { accepted: 5, refused: 4 });
    const retried = { retried: [1, 0], refused: [0, 0], depth: [4, 0] };
    const ends = { accepted: [4, 0], completed: [0, 1], failed: [0, 1], ...retried };
    expect(history.read()).to.deep.equal({ end: START + 1, seconds: 2, ...ends, starts: [START] });
    advance(3);
    expect([history.read().refused, history.lastMinute('refused')]).to.deep.equal([[0, 0, 4], 4]);
  });

  it('counts redriven dead letters as accepted, but not those that were purged', () => {
    const { history, advance } = startHistory({ accepted: 5, failed: 5, dead: 5 });
    advance(1, { dead: 3, waiting: 2 });
    advance(2, { dead: 0, dropped: 3 });
    expect(history.read()).to.deep.include({ accepted: [2, 0], failed: [0, 0], depth: [2, 2] });
  });

  it('keeps 900 seconds', () => {
    const { history, advance } = startHistory();
    for (let second = 1; second <= 1000; second++) advance(second, { accepted: second, waiting: second });
    advance(1001, { accepted: 1007, waiting: 1001 });
    const depth = Array.from({ length: 900 }, (_, index) => 102 + index);
    const accepted = [...Array(899).fill(1), 7];
    expect(history.read()).to.deep.include({ end: START + 1000, seconds: 900, accepted, depth });
    expect(history.lastMinute('accepted')).to.equal(66);
  });

  it('counts all events of a stall in its first second, and is idle for the time that a suspended machine skips', () => {
    const { history, advance } = startHistory();
    advance(2.2, { accepted: 2, waiting: 7 });
    expect(history.read()).to.deep.include({ end: START + 1, accepted: [2, 0], depth: [7, 7] });
    advance(1e12, { accepted: 3 });
    const idle = { end: START + 1e12 - 1, accepted: [1, ...Array(899).fill(0)], depth: Array(900).fill(7) };
    expect(history.read()).to.deep.include(idle);
  });

  it('continues after the totals were reset', () => {
    const { history, advance } = startHistory({ completed: 100 });
    advance(1, { completed: 2 });
    advance(2, { completed: 5 });
    expect(history.read()).to.deep.include({ completed: [0, 3] });
  });

  it('has the sums of each complete minute, for 24 hours', () => {
    const { history, advance } = startHistory();
    // The epoch's minutes begin 40 seconds later.
    for (let second = 1; second <= 200; second++) advance(second, { completed: second, waiting: second });
    const minutes = { end: START + 100, minutes: 3, completed: [40, 60, 60], depth: [40, 100, 160] };
    expect(history.read(0, 60)).to.deep.include(minutes);
    expect(history.read(START + 40, 60)).to.deep.include({ minutes: 1, completed: [60] });
    advance(100_010);
    expect(history.read(0, 60)).to.deep.include({ minutes: 1439 });
  });

  it('continues after a restart, which it marks, and is idle between', () => {
    const before = startHistory();
    const totals = { accepted: 1, completed: 5, failed: 3, dead: 3, retried: 4, refused: 6 };
    before.advance(1, { ...totals, waiting: 2 });
    const { history, advance } = startHistory({ ...totals, completed: 7 }, before.history.save(), 100);
    const { accepted, failed, retried, refused, depth } = history.read();
    expect([accepted, failed, retried, refused, depth].map(([first]) => first)).to.deep.equal([1, 3, 4, 6, 2]);
    advance(101, { completed: 8 });
    const completed = [5, ...Array(99).fill(0), 1];
    expect(history.read()).to.deep.include({ end: START + 100, seconds: 101, completed, starts: [START, START + 100] });
    expect(history.read(0, 60)).to.deep.include({ minutes: 2, completed: [5, 0] });
    for (const damaged of ['', '{', '{}', 'null', '{"series":[],"starts":[]}', '{"series":[{}],"starts":[1]}'])
      expect(startHistory({}, damaged).history.read()).to.include({ seconds: 0 });
    const future = startHistory({}, history.save(), -100);
    expect(future.history.read()).to.deep.include({ seconds: 0, starts: [START - 100] });
    let last = history;
    for (let second = 101; second <= 201; second++) last = startHistory({}, last.save(), second).history;
    expect(last.read().starts, 'the newest of many').to.deep.equal(range(START + 102, START + 201));
  });
});
