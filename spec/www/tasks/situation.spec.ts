import { expect } from 'chai';
import type { QueueStatus } from '../../../www/client/queue-api.ts';
import { QueueHistory } from '../../../www/tasks/queue-history.ts';
import { type Facts, situationOf } from '../../../www/tasks/situation.ts';
import { formatClock } from '../../../www/tasks/texts.ts';

/** Newest second of the history. */
const NOW = 100_000;

const status = {
  ...{ accepted: 9, completed: 5, dead: 1, waiting: 1, scheduled: 0, delayed: 1, in_flight: 1, bytes: 2e6 },
  ...{ dropped: 0, evicted: 0, cancelled: 0, limited: 0, running: 1 },
  refused: { total: 0, per_second: 0, last_at: null as number | null },
  limits: { length: 10, bytes: 4e6, dead_letters: 10_000, prefetch: 5 },
  ...{ oldest_age_seconds: 1.5, threads: { busy: 1, total: 2, overlap: 1 }, paused: false, stalled: null },
  latency: { window_seconds: 300, waiting: null, running: null },
};

/** Returns the history of 120 seconds. */
function historyOf(columns: Record<string, (second: number) => number>) {
  const seconds = new QueueHistory(1, 900);
  const column = (name: string) => Array.from({ length: 120 }, (_, second) => columns[name]?.(second) ?? 0);
  const names = ['accepted', 'completed', 'failed', 'retried', 'refused', 'depth'];
  const values = Object.fromEntries(names.map((name) => [name, column(name)]));
  seconds.add({ end: NOW, seconds: 120, ...(values as never as { [name: string]: number[] }), starts: [1] } as never);
  return { seconds, minutes: new QueueHistory(60, 1_440) };
}

function situation(change: object, facts: Partial<Facts> & { columns?: Parameters<typeof historyOf>[0] } = {}) {
  const { columns = {}, ...rest } = facts;
  const own = {
    status: { ...status, ...change } as QueueStatus,
    history: historyOf(columns),
    causes: { causes: [], total: 0 },
    link: { kind: 'live' as const },
    answeredAt: 5_000,
    ...rest,
  };
  return situationOf(own, 'http://host');
}

/** Formats the time `ago` seconds before the end of the history. */
const ago = (seconds: number) => formatClock((NOW + 1 - seconds) * 1_000, false).slice(0, -3);

describe('the situation of the queue', () => {
  it('is normal with the rate and the failures of the history, and unknown before the first answer', () => {
    const columns = { completed: () => 12, failed: (second: number) => Number(second === 3) };
    expect(situation({}, { columns })).to.deep.equal({
      severity: 'normal',
      sentence: 'No problems: 12 tasks completed a second, 1 failure in the last 15 min.',
      problems: [],
    });
    const connecting = situation({}, { link: { kind: 'connecting' } });
    expect(connecting).to.deep.equal({ severity: 'unknown', sentence: '', problems: [] });
    expect(situation({}, { status: undefined }).severity).to.equal('unknown');
  });

  it('is unknown while the service does not answer, since its last answer, and not normal', () => {
    const offline = situation({}, { link: { kind: 'offline' } });
    expect(offline).to.deep.include({ severity: 'unknown', since: 5_000 });
    expect(offline.sentence).to.match(/^The service does not answer\. All figures are from .*\d\d:\d\d:\d\d\.$/);
    expect(situation({}, { link: { kind: 'failing', error: 'queue unavailable' } }).sentence).to.match(
      /^The service answers: queue unavailable\. All figures/,
    );
  });

  it('says in one sentence how full the queue is, when it will be full, and what fails since when', () => {
    const limits = { ...status.limits, length: 100_000, bytes: 1e9 };
    const columns = {
      depth: (second: number) => 94_970 + second * 40,
      failed: (second: number) => (second < 20 ? 0 : 5),
      completed: () => 1,
    };
    const causes = { causes: [{ cause: 'card declined', count: 41 }], total: 100 };
    const found = situation({ waiting: 99_728, limits }, { columns, causes });
    expect(found.sentence.replaceAll('\u00a0', ' ')).to.equal(
      `Backlog 99,730 of 100,000 tasks, +40/s, full in 6.8 s, since ${ago(120)}. ` +
        `5 failures a second, 41 % of them “card declined”, since ${ago(100)}.`,
    );
    expect(found).to.deep.include({ severity: 'critical', since: (NOW + 1 - 120) * 1_000 });
  });

  it('is full at either limit, and names the limit', () => {
    const [byLength] = situation({ waiting: 8 }).problems;
    expect(byLength?.text).to.equal('The queue is full: 10 of 10 tasks.');
    expect(byLength?.advice).to.include('QUEUE_MAX_LENGTH');
    const [byBytes] = situation({ bytes: 4e6 }).problems;
    expect(byBytes?.text).to.equal('The queue is full: 4 MB of 4 MB.');
    expect(byBytes?.advice).to.include('QUEUE_MAX_BYTES');
    const [, whilePaused] = situation({ waiting: 8, paused: true }).problems;
    expect(whilePaused?.advice).to.equal('New tasks are refused once it is full, until tasks are processed again.');
  });

  it('warns from 90 % of either limit, and from half of it on if it will be full within 15 minutes', () => {
    expect(situation({ waiting: 6 }).severity).to.equal('normal');
    const byLength = situation({ waiting: 7 });
    expect(byLength).to.deep.include({ severity: 'warning', sentence: 'Backlog 9 of 10 tasks.' });
    expect(situation({ bytes: 3.79e6 }).sentence).to.equal('Backlog 3.8 MB of 4 MB.');
    const growing = { limits: { ...status.limits, length: 2_000, bytes: 1e9 }, waiting: 1_198 };
    const rising = { depth: (second: number) => second * 10 };
    expect(situation(growing, { columns: rising }).sentence).to.equal(
      'Backlog 1,200 of 2,000 tasks, +10/s, full in 80 s.',
    );
    expect(situation({ ...growing, waiting: 500 }, { columns: rising }).severity).to.equal('normal');
    const falling = { depth: (second: number) => 1_900 - second };
    expect(situation({ ...growing, waiting: 1_898 }, { columns: falling }).sentence).to.equal(
      `Backlog 1,900 of 2,000 tasks, −1.0/s, since ${ago(120)}.`,
    );
  });

  it('has refusals of the last minute with their rate', () => {
    const refused = { total: 65, per_second: 1.08, last_at: 1 };
    const columns = { refused: (second: number) => Number(second >= 90) };
    expect(situation({ refused }, { columns })).to.deep.include({
      severity: 'critical',
      sentence: `1.1 submissions a second refused, since ${ago(30)}, 65 since the start.`,
    });
    expect(situation({ refused: { ...refused, per_second: 0.05 } }).sentence).to.match(
      /^3 submissions a minute refused/,
    );
    expect(situation({ refused: { ...refused, per_second: 0 } }).severity).to.equal('normal');
  });

  it('has failures from six in a minute and a twentieth of the ended tasks on, and says whether they become more', () => {
    const failing = (failed: (second: number) => number, completed: number) =>
      situation({}, { columns: { failed, completed: () => completed } });
    const each = (seconds: number) => (second: number) => Number(second % seconds === 0);
    expect(failing(each(12), 1).severity, '5 a minute').to.equal('normal');
    expect(failing(each(10), 100).severity, 'of 6,000').to.equal('normal');
    const some = failing(each(10), 1);
    expect(some.severity).to.equal('warning');
    expect(some.sentence).to.match(/^6 failures a minute, since/);
    expect(failing(each(1), 100).severity, 'one a second').to.equal('critical');
    expect(failing(each(10), 0).severity, 'all').to.equal('critical');
    expect(failing((second) => (second < 100 ? 1 : 5), 1).sentence).to.match(/^2\.3 failures a second, rising, since/);
    expect(failing((second) => (second < 100 ? 5 : 1), 1).sentence).to.match(/^3\.7 failures a second, falling, since/);
  });

  it('names evicted dead letters, and warns before there are any', () => {
    expect(situation({ evicted: 2_145, dead: 10_000 })).to.deep.include({
      severity: 'warning',
      sentence: '2,145 failed tasks were evicted.',
    });
    expect(situation({ dead: 9_000 }).sentence).to.equal('9,000 of 10,000 failed tasks are kept.');
    expect(situation({ dead: 8_999 }).severity).to.equal('normal');
    expect(situation({ evicted: 1, dead: 0 }).severity).to.equal('normal');
  });

  it('has a pause, and a handlers module that cannot be loaded, with its place', () => {
    const paused = situation({ paused: true, paused_at_ms: (NOW + 1) * 1_000 });
    expect(paused.sentence).to.equal(`The queue is paused, since ${ago(0)}.`);
    const [problem] = situation({ module_problem: 'lib.ts:1:2: x' }).problems;
    expect(problem).to.deep.include({ kind: 'module', text: 'lib.ts:1:2: x.' });
  });

  it('has advice for each reason of a stall, before all others', () => {
    const reasons = {
      'the task threads do not start': 'log',
      '/data/tasks.db does not exist': 'DATA_DIR',
      'database or disk is full': 'DATA_DIR',
      'cannot reach PostgreSQL at db:5432: connection refused: start it, or fix DATABASE_URL': 'PostgreSQL server',
      'something else': 'log',
    };
    for (const [reason, advice] of Object.entries(reasons)) {
      const { severity, problems } = situation({ stalled: { reason, since: 0 }, paused: true });
      const [first, second] = problems;
      expect(severity).to.equal('critical');
      expect(first?.text)
        .to.match(/^No task can be processed since /)
        .and.to.include(reason);
      expect(first?.advice).to.include(advice);
      expect(second?.kind).to.equal('paused');
    }
  });
});
