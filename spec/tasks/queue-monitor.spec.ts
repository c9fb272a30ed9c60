import { setImmediate } from 'node:timers/promises';
import { expect } from 'chai';
import type { QueueCounts } from '../../db/task-store.ts';
import { createQueueMonitor, recentDurations } from '../../main/tasks/queue-monitor.ts';
import { Histogram, TASK_DURATION_BOUNDS } from '../../workers/shared/histogram.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { NO_COUNTS } from './no-counts.ts';

const START = 1_790_000_000;

/** Starts a monitor, on a clock and with totals that the spec changes. */
function startMonitor() {
  const clock = new ManualClock(START * 1000 + 400);
  const totals: QueueCounts = { ...NO_COUNTS };
  let calls = 0;
  const queue = {
    isPaused: false,
    pausedAt: undefined,
    counts: async () => {
      calls += 1;
      return { ...totals };
    },
  };
  const [waits, durations] = [new Histogram(TASK_DURATION_BOUNDS), new Histogram(TASK_DURATION_BOUNDS)];
  const problems: Record<string, string | undefined> = {};
  const monitor = createQueueMonitor({
    queue,
    pool: { threads: 2, overlap: 4, busy: 1, durations },
    dispatcher: { metrics: { waits } },
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
  return { monitor, queue, totals, problems, waits, durations, advance, calls: () => calls };
}

describe('the monitor of the queue', () => {
  it('reports the percentiles of the durations of waiting and of running', () => {
    const { monitor, waits, durations } = startMonitor();
    waits.observe(0.3);
    durations.observe(3);
    const { waiting, running } = monitor.status().latency;
    expect(waiting?.p50).to.be.within(0.25, 0.5);
    expect(running?.p50).to.be.within(2.5, 5);
  });

  it('completes a second of the history when a second ends, with the depth at its end', async () => {
    const { monitor, totals, advance } = startMonitor();
    await advance(0);
    Object.assign(totals, { accepted: 1, waiting: 1 });
    await advance(600);
    Object.assign(totals, { accepted: 3, waiting: 3 });
    await advance(999);
    expect(monitor.history()).to.deep.include({ end: START, accepted: [1], depth: [1] });
    await advance(1);
    expect(monitor.history()).to.deep.include({ end: START + 1, accepted: [1, 2], depth: [1, 3] });
    expect(monitor.history(START)).to.deep.include({ accepted: [2], depth: [3] });
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
    const answer = Promise.withResolvers<QueueCounts>();
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
    monitor.stop();
    await advance(10_000);
    expect([monitor.status().stalled, calls()]).to.deep.equal([null, 1]);
  });
});

function startRecent() {
  const histogram = new Histogram(TASK_DURATION_BOUNDS);
  const recent = recentDurations(histogram);
  const pass = (seconds: number) => {
    for (let second = 0; second < seconds; second++) recent.tick();
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
