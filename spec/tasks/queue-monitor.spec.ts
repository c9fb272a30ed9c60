import { setImmediate } from 'node:timers/promises';
import { expect } from 'chai';
import { DispatchMetrics } from '../../main/tasks/dispatch/dispatcher.ts';
import type { LiveCounts } from '../../main/tasks/queue.ts';
import { createQueueMonitor } from '../../main/tasks/queue-monitor.ts';
import { Histogram, TASK_DURATION_BOUNDS } from '../../workers/shared/histogram.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { NO_COUNTS } from './no-counts.ts';

const START = 1_790_000_000;

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
  const advanceSeconds = async (seconds: number) => {
    for (let second = 0; second < seconds; second++) await advance(1000);
  };
  return { monitor, attempts, queue, saved, totals, problems, waits, advance, advanceSeconds };
}

describe('the monitor of the queue', () => {
  it('tells the rate, the share of failures and the percentiles of each action', async () => {
    const { monitor, attempts, advanceSeconds } = startMonitor();
    const { outcomes, waits, durations } = attempts.of('sum');
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
    await advanceSeconds(300);
    expect(monitor.actions(300).get('sum')).to.deep.equal(nothing);
    // Longer periods still have the attempts, and cover the time since the start.
    expect(monitor.actions(900).get('sum')).to.include({ per_second: 0.0133, failure_share: 0.5 });
    expect([300, 900, 86_400].map((seconds) => monitor.coveredSeconds(seconds as 300))).to.deep.equal([275, 300, 300]);
    await advanceSeconds(600);
    expect(monitor.actions(900).get('sum')).to.deep.equal(nothing);
    expect(monitor.actions(3_600).get('sum')?.running?.p95).to.be.within(2.5, 5);
  });

  it('counts time rather than ticks, of which some are missed while the machine is suspended', async () => {
    const { monitor, attempts, advance } = startMonitor();
    await advance(600);
    for (let count = 0; count < 90; count++) attempts.of('sum').outcomes.count('completed');
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
    const { monitor, queue, saved, advanceSeconds } = startMonitor();
    await advanceSeconds(125);
    expect(saved).to.have.length(2);
    const { saveHistory } = queue.store;
    queue.store.saveHistory = () => Promise.reject(new Error('the disk is full'));
    await advanceSeconds(60);
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

  it('checks and counts nothing after it is stopped', async () => {
    const { monitor, problems, queue, advance } = startMonitor();
    problems.rows = 'disk full';
    await monitor.stop();
    queue.counts = () => expect.fail('counted');
    await advance(10_000);
    expect(monitor.status().stalled).to.equal(null);
  });

  it('has the percentiles of the last five minutes', async () => {
    const { monitor, waits, advanceSeconds } = startMonitor();
    const percentiles = () => monitor.status().latency.waiting;
    await advanceSeconds(1000);
    expect(percentiles()).to.equal(null);
    waits.observe(20);
    await advanceSeconds(269);
    expect(percentiles()?.p50).to.be.within(10, 30);
    waits.observe(0.3);
    await advanceSeconds(31);
    expect(percentiles()?.p99).to.be.within(0.25, 0.5);
    await advanceSeconds(300);
    expect(percentiles()).to.equal(null);
  });
});
