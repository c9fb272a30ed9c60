import { mock } from 'node:test';
import { expect } from 'chai';
import { QueueHistory } from '../../../main/tasks/monitor/queue-history.ts';
import { QueueMonitor } from '../../../main/tasks/monitor/queue-monitor.ts';
import { LocalQueue } from '../../../main/tasks/queue/local-queue.ts';
import { Histogram, TASK_DURATION_BOUNDS } from '../../../workers/histogram.ts';
import { afterTest } from '../../support/cleanup.ts';

const START_MS = 1_790_000_000_400;
const bounds = { maxLength: 100, maxBytes: 100_000, maxKeys: 10 };

/** Starts a monitor of a memory queue on mocked timers and a mocked clock. */
function startMonitor() {
  mock.timers.enable({ apis: ['setTimeout', 'Date'], now: START_MS });
  const history = new QueueHistory();
  const queue = new LocalQueue(bounds, { onEvent: (event) => history.record(event) });
  afterTest(() => queue.close());
  const waits = new Histogram(TASK_DURATION_BOUNDS);
  const durations = [new Histogram(TASK_DURATION_BOUNDS), new Histogram(TASK_DURATION_BOUNDS)];
  const problems: Record<string, string | undefined> = {};
  const monitor = new QueueMonitor({
    history,
    queue,
    pool: { threads: 2, busy: 1, durations },
    dispatcher: { metrics: { waits } },
    bounds,
    prefetch: 5,
    problems: [() => problems.threads, () => problems.rows],
  });
  afterTest(() => monitor.stop());
  return { monitor, queue, problems, waits, durations };
}

describe('the monitor of the queue', () => {
  afterEach(() => mock.timers.reset());

  it('reports limits, threads, the age of the oldest task, and percentiles', async () => {
    const { monitor, queue, waits, durations } = startMonitor();
    const idle = monitor.status();
    expect(idle).to.deep.equal({
      limits: { length: 100, bytes: 100_000, deadLetters: 10_000, prefetch: 5 },
      oldestAge: undefined,
      threads: { busy: 1, total: 2 },
      paused: false,
      stalled: undefined,
      waiting: undefined,
      running: undefined,
    });
    await queue.publish({ id: 'a', body: 'a' });
    mock.timers.tick(1500);
    await queue.publish({ id: 'b', body: 'b' });
    waits.observe(0.3);
    durations[1]?.observe(3);
    const { oldestAge, waiting, running } = monitor.status();
    expect(oldestAge).to.equal(1.5);
    expect(waiting?.p50).to.be.within(0.25, 0.5);
    expect(running?.p50).to.be.within(2.5, 5);
  });

  it('completes a second of the history when a second ends, with the depth at its end', async () => {
    const { monitor, queue } = startMonitor();
    await queue.publish({ id: 'a', body: 'a' });
    mock.timers.tick(600);
    await queue.publish({ id: 'b', body: 'b' });
    await queue.publish({ id: 'c', body: 'c' });
    mock.timers.tick(999);
    expect(monitor.history()).to.deep.include({ end: 1_790_000_000, accepted: [1], depth: [1] });
    mock.timers.tick(1);
    expect(monitor.history()).to.deep.include({ end: 1_790_000_001, accepted: [1, 2], depth: [1, 3] });
    expect(monitor.history(1_790_000_000)).to.deep.include({ accepted: [2], depth: [3] });
  });

  it('reports since when no task can be processed, and the first reason', () => {
    const { monitor, problems } = startMonitor();
    problems.rows = 'disk full';
    mock.timers.tick(600);
    const since = 1_790_000_001;
    expect(monitor.status().stalled).to.deep.equal({ reason: 'disk full', since });
    mock.timers.tick(5000);
    expect(monitor.status().stalled).to.deep.equal({ reason: 'disk full', since });
    problems.threads = 'the threads do not start';
    mock.timers.tick(1000);
    expect(monitor.status().stalled).to.deep.equal({ reason: 'the threads do not start', since });
    problems.rows = undefined;
    problems.threads = undefined;
    mock.timers.tick(1000);
    expect(monitor.status().stalled).to.equal(undefined);
    problems.rows = 'disk full';
    mock.timers.tick(1000);
    expect(monitor.status().stalled).to.deep.equal({ reason: 'disk full', since: 1_790_000_009 });
  });

  it('checks nothing after it is stopped', () => {
    const { monitor, problems } = startMonitor();
    problems.rows = 'disk full';
    monitor.stop();
    mock.timers.tick(10_000);
    expect(monitor.status().stalled).to.equal(undefined);
  });
});
