import { setImmediate } from 'node:timers/promises';
import { expect } from 'chai';
import { DispatchMetrics } from '../../main/tasks/dispatch/dispatcher.ts';
import type { LiveCounts } from '../../main/tasks/queue.ts';
import { createQueueMonitor, recentDurations } from '../../main/tasks/queue-monitor.ts';
import { Histogram, TASK_DURATION_BOUNDS } from '../../workers/shared/histogram.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { NO_COUNTS } from './no-counts.ts';

const START = 1_790_000_000;

/** Starts a monitor, on a clock and with totals that the spec changes. */
function startMonitor() {
  const clock = new ManualClock(START * 1000 + 400);
  const totals: LiveCounts = { ...NO_COUNTS };
  let calls = 0;
  const queue = {
    isPaused: false,
    refused: { count: 0, lastAt: undefined as number | undefined },
    saved: [] as string[],
    store: { saveHistory: async (_: number, text: string) => void queue.saved.push(text) },
    pausedAt: undefined,
    counts: async () => {
      calls += 1;
      return { ...totals };
    },
  };
  const [waits, durations] = [new Histogram(TASK_DURATION_BOUNDS), new Histogram(TASK_DURATION_BOUNDS)];
  const metrics = new DispatchMetrics(['sum']);
  const problems: Record<string, string | undefined> = {};
  const monitor = createQueueMonitor({
    queue,
    pool: { threads: 2, overlap: 4, busy: 1, durations, threadOf: () => undefined },
    dispatcher: { metrics: { waits, attempts: metrics.attempts } },
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
  return { monitor, metrics, queue, totals, problems, waits, durations, advance, calls: () => calls };
}

describe('the monitor of the queue', () => {
  it('tells the rate, the share of failures and the percentiles of each action', async () => {
    const { monitor, metrics, advance } = startMonitor();
    const { outcomes, waits, durations } = metrics.attempts.of('sum');
    const ended = { per_second: 0.133, failure_share: 0.5 };
    for (const outcome of ['completed', 'retried', 'failed', 'cancelled']) outcomes.count(outcome);
    waits.observe(0.3);
    durations.observe(3);
    const actions = monitor.actions(300);
    expect(actions.get('sum')).to.include(ended);
    expect(actions.get('sum')?.waiting?.p95).to.be.within(0.25, 0.5);
    expect(actions.get('sum')?.running?.p95).to.be.within(2.5, 5);
    const nothing = { per_second: 0, failure_share: null, waiting: null, running: null };
    expect(actions.get('other')).to.deep.equal(nothing);
    for (let second = 0; second < 300; second++) await advance(1000);
    expect(monitor.actions(300).get('sum')).to.deep.equal(nothing);
    // Longer periods still have the attempts, and cover the time since the start.
    expect(monitor.actions(900).get('sum')).to.include({ per_second: 0.0133, failure_share: 0.5 });
    expect([300, 900, 86_400].map((seconds) => monitor.coveredSeconds(seconds as 300))).to.deep.equal([275, 300, 300]);
    for (let second = 0; second < 600; second++) await advance(1000);
    expect(monitor.actions(900).get('sum')).to.deep.equal(nothing);
    expect(monitor.actions(3_600).get('sum')?.running?.p95).to.be.within(2.5, 5);
  });

  it('counts time rather than ticks, of which some are missed while the machine is suspended', async () => {
    const { monitor, metrics, advance } = startMonitor();
    await advance(600);
    for (let count = 0; count < 90; count++) metrics.attempts.of('sum').outcomes.count('completed');
    // No tick follows.
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
    let asked = 0;
    queue.counts = () => {
      asked += 1;
      return answer.promise;
    };
    await advance(5000);
    expect(asked).to.equal(1);
    answer.resolve({ ...totals, accepted: 1 });
    await advance(0);
    await advance(1000);
    expect([asked, monitor.history().accepted]).to.deep.equal([2, [1, 0, 0, 0, 0, 0]]);
  });

  it('saves the history once a minute and at the stop', async () => {
    const { monitor, queue, advance } = startMonitor();
    for (let second = 0; second < 125; second++) await advance(1000);
    expect(queue.saved).to.have.length(2);
    queue.store.saveHistory = () => Promise.reject(new Error('the disk is full'));
    for (let second = 0; second < 60; second++) await advance(1000);
    queue.store.saveHistory = async (_, text) => void queue.saved.push(text);
    await monitor.stop();
    expect(JSON.parse(queue.saved[2] as string).series[0].columns.depth).to.have.length(185);
  });

  it('reports since when no task can be processed, and the first reason', async () => {
    const { monitor, problems, advance } = startMonitor();
    problems.rows = 'disk full';
    await advance(600);
    const since = START + 1;
    expect(monitor.status().stalled).to.deep.equal({ reason: 'disk full', since });
    await advance(5000);
    expect(monitor.status().stalled).to.deep.equal({ reason: 'disk full', since });
    problems.threads = 'the threads do not start';
    await advance(1000);
    expect(monitor.status().stalled).to.deep.equal({ reason: 'the threads do not start', since });
    problems.rows = undefined;
    problems.threads = undefined;
    await advance(1000);
    expect(monitor.status().stalled).to.equal(null);
    problems.rows = 'disk full';
    await advance(1000);
    expect(monitor.status().stalled).to.deep.equal({ reason: 'disk full', since: START + 9 });
  });

  it('checks and counts nothing after it is stopped', async () => {
    const { monitor, problems, advance, calls } = startMonitor();
    problems.rows = 'disk full';
    await monitor.stop();
    await advance(10_000);
    expect([monitor.status().stalled, calls()]).to.deep.equal([null, 1]);
  });
});

function startRecent() {
  const histogram = new Histogram(TASK_DURATION_BOUNDS);
  const clock = new ManualClock(START * 1000);
  const recent = recentDurations(histogram, clock);
  const pass = (seconds: number) => {
    for (let second = 0; second < seconds; second++) {
      clock.advance(1000);
      recent.tick();
    }
  };
  return { histogram, recent, pass };
}

describe('the percentiles of recent durations', () => {
  it('omit durations that are more than five minutes old', () => {
    const { histogram, recent, pass } = startRecent();
    pass(1000);
    expect(recent.percentiles()).to.equal(undefined);
    histogram.observe(20);
    pass(269);
    expect(recent.percentiles()?.p50).to.be.within(10, 30);
    histogram.observe(0.3);
    pass(31);
    expect(recent.percentiles()?.p99).to.be.within(0.25, 0.5);
    pass(300);
    expect(recent.percentiles()).to.equal(undefined);
  });
});
