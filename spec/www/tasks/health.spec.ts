import { expect } from 'chai';
import { healthOf, noticesOf, RateMeter } from '../../../www/tasks/health.ts';

const status = {
  ...{ accepted: 9, completed: 5, dead: 1, waiting: 1, scheduled: 0, delayed: 1, in_flight: 1, bytes: 2e6 },
  ...{
    dropped: 0,
    evicted: 0,
    cancelled: 0,
    limited: 0,
    running: 1,
    refused: { total: 0, per_second: 0, last_at: null },
  },
  limits: { length: 10, bytes: 4e6, dead_letters: 10_000, prefetch: 5 },
  ...{ oldest_age_seconds: 1.5, threads: { busy: 1, total: 2, overlap: 1 }, paused: false, stalled: null },
  latency: { window_seconds: 300, waiting: null, running: null },
};
const notices = (change: Partial<typeof status> | { stalled: { reason: string; since: number } }) =>
  noticesOf(healthOf({ ...status, ...change }, 1), 'http://host');

describe('the health of the queue', () => {
  it('is full at either limit, and the notice names the limit', () => {
    expect(notices({})).to.deep.equal([]);
    const [byLength] = notices({ waiting: 8 });
    expect(byLength?.problem).to.equal('The queue is full: 10 of 10 tasks.');
    expect(byLength?.advice).to.include('QUEUE_MAX_LENGTH');
    const [byBytes] = notices({ bytes: 4e6 });
    expect(byBytes?.problem).to.equal('The queue is full: 4.0 MB of 4.0 MB.');
    expect(byBytes?.advice).to.include('QUEUE_MAX_BYTES');
    const [, whilePaused] = notices({ waiting: 8, paused: true });
    expect(whilePaused?.advice).to.equal('New tasks are refused until tasks are processed again.');
  });

  it('warns from 90 % of either limit, and of refusals of the last minute', () => {
    expect(notices({ waiting: 6 })).to.deep.equal([]);
    const [byLength] = notices({ waiting: 7 });
    expect(byLength).to.deep.include({ kind: 'filling', problem: 'The queue is 90 % full: 9 of 10 tasks.' });
    const [byBytes] = notices({ bytes: 3.79e6 });
    expect(byBytes).to.deep.include({ kind: 'filling', problem: 'The queue is 94 % full: 3.8 MB of 4.0 MB.' });
    const [refused] = notices({ refused: { total: 65, per_second: 1.08, last_at: 1 as never } });
    expect(refused).to.deep.include({
      kind: 'refused',
      problem: 'The queue was full: 65 submissions refused since the start, 1.1 a second in the last minute.',
    });
    expect(notices({ refused: { total: 65, per_second: 0, last_at: 1 as never } })).to.deep.equal([]);
  });

  it('tells started tasks from those that a node has only taken', () => {
    const health = healthOf({ ...status, in_flight: 20, running: 6 }, 1);
    expect(health).to.deep.include({ running: 6, next: 14, length: 22 });
  });

  it('has a notice of a handlers module that cannot be loaded, with its place', () => {
    const [notice] = notices({ module_problem: 'lib.ts:1:2: x' } as never);
    expect(notice).to.deep.include({ kind: 'module', problem: 'lib.ts:1:2: x.' });
  });

  it('has a notice with advice for each reason of a stall, before all others', () => {
    const reasons = {
      'the task threads do not start': 'log',
      '/data/tasks.db does not exist': 'DATA_DIR',
      'database or disk is full': 'DATA_DIR',
      'cannot reach PostgreSQL at db:5432: connection refused: start it, or fix DATABASE_URL': 'PostgreSQL server',
      'something else': 'log',
    };
    for (const [reason, advice] of Object.entries(reasons)) {
      const [first, second] = notices({ stalled: { reason, since: 0 }, paused: true } as never);
      expect(first?.problem)
        .to.match(/^No task can be processed since /)
        .and.to.include(reason);
      expect(first?.advice).to.include(advice);
      expect(second?.kind).to.equal('paused');
    }
  });

  it('measures the rate over ten seconds, and anew after a restart', () => {
    const meter = new RateMeter();
    expect(meter.add(100, 0)).to.equal(undefined);
    expect(meter.add(120, 2_000)).to.equal(10);
    for (let second = 3; second <= 30; second++) meter.add(120, second * 1_000);
    expect(meter.add(120, 31_000)).to.equal(0);
    expect(meter.add(3, 32_000)).to.equal(undefined);
    expect(meter.add(4, 33_000)).to.equal(1);
  });
});
