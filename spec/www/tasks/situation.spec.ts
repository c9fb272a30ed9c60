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

const COLUMNS = ['accepted', 'completed', 'failed', 'retried', 'refused', 'depth'] as const;

/** Numbers of the 120 seconds of the history, in columns that are otherwise zero. */
type Columns = { [Column in (typeof COLUMNS)[number]]?: (second: number) => number };

function situation(change: object = {}, columns: Columns = {}, facts: Partial<Facts> = {}) {
  const seconds = new QueueHistory(1, 900);
  const values = (name: keyof Columns) => Array.from({ length: 120 }, (_, second) => columns[name]?.(second) ?? 0);
  const part = Object.fromEntries(COLUMNS.map((name) => [name, values(name)]));
  seconds.add({ end: NOW, seconds: 120, ...part, starts: [1] } as never);
  const own = {
    status: { ...status, ...change } as QueueStatus,
    history: { seconds, minutes: new QueueHistory(60, 1_440) },
    causes: { causes: [], total: 0 },
    link: { kind: 'live' as const },
    answeredAt: 5_000,
    ...facts,
  };
  return situationOf(own, 'http://host');
}

function expectEach(cases: readonly (readonly [change: object, columns: Columns, severity: string, text: RegExp])[]) {
  for (const [change, columns, severity, text] of cases) {
    const found = situation(change, columns);
    expect(found.sentence).to.match(text);
    expect(found.severity, found.sentence).to.equal(severity);
  }
}

/** Formats the time `ago` seconds before the end of the history. */
const ago = (seconds: number) => formatClock((NOW + 1 - seconds) * 1_000, false).slice(0, -3);

const NORMAL = /^No problems: /;

describe('the situation of the queue', () => {
  it('is normal with the rate and the failures of the history, and unknown before the first answer', () => {
    expect(situation({}, { completed: () => 12, failed: (second: number) => Number(second === 3) })).to.deep.equal({
      severity: 'normal',
      sentence: 'No problems: 12 tasks completed a second, 1 failure in the last 15 min.',
      problems: [],
    });
    for (const facts of [{ link: { kind: 'connecting' } }, { status: undefined }] as const)
      expect(situation({}, {}, facts)).to.deep.equal({ severity: 'unknown', sentence: '', problems: [] });
  });

  it('is unknown while the service does not answer, since its last answer, and not normal', () => {
    for (const [link, text] of [
      [{ kind: 'offline' }, 'The service does not answer'],
      [{ kind: 'failing', error: 'queue unavailable' }, 'The service answers: queue unavailable'],
    ] as const) {
      const { severity, since, sentence } = situation({}, {}, { link });
      expect([severity, since]).to.deep.equal(['unknown', 5_000]);
      expect(sentence).to.match(new RegExp(`^${text}\\. All figures are from .*\\d\\d:\\d\\d:\\d\\d\\.$`));
    }
  });

  it('says in one sentence how full the queue is, when it will be full, and what fails since when', () => {
    const limits = { ...status.limits, length: 100_000, bytes: 1e9 };
    const columns = {
      depth: (second: number) => 94_970 + second * 40,
      failed: (second: number) => (second < 20 ? 0 : 5),
      completed: () => 1,
    };
    const causes = { causes: [{ cause: 'card declined', count: 41 }], total: 100 };
    const found = situation({ waiting: 99_728, limits }, columns, { causes });
    expect(found.sentence.replaceAll('\u00a0', ' ')).to.equal(
      `Backlog 99,730 of 100,000 tasks, +40/s, full in 6.8 s, since ${ago(120)}. ` +
        `5 failures a second, 41 % of them “card declined”, since ${ago(100)}.`,
    );
    expect(found).to.deep.include({ severity: 'critical', since: (NOW + 1 - 120) * 1_000 });
  });

  it('is full at either limit, and names the limit', () => {
    const paused = /^New tasks are refused once it is full, until tasks are processed again\.$/;
    for (const [change, text, advice] of [
      [{ waiting: 8 }, 'The queue is full: 10 of 10 tasks.', /QUEUE_MAX_LENGTH/],
      [{ bytes: 4e6 }, 'The queue is full: 4 MB of 4 MB.', /QUEUE_MAX_BYTES/],
      [{ waiting: 8, paused: true }, 'The queue is full: 10 of 10 tasks.', paused],
    ] as const) {
      const problem = situation(change).problems.at(-1);
      expect(problem?.text).to.equal(text);
      expect(problem?.advice).to.match(advice);
    }
  });

  it('warns from 90 % of either limit, and from half of it on if it will be full within 15 minutes', () => {
    const limits = { ...status.limits, length: 2_000, bytes: 1e9 };
    const rising = { depth: (second: number) => second * 10 };
    const falling = { depth: (second: number) => 1_900 - second };
    const falls = new RegExp(`^Backlog 1,900 of 2,000 tasks, −1\\.0/s, since ${ago(120)}\\.$`);
    expectEach([
      [{ waiting: 6 }, {}, 'normal', NORMAL],
      [{ waiting: 7 }, {}, 'warning', /^Backlog 9 of 10 tasks\.$/],
      [{ bytes: 3.79e6 }, {}, 'warning', /^Backlog 3\.8 MB of 4 MB\.$/],
      [{ limits, waiting: 1_198 }, rising, 'critical', /^Backlog 1,200 of 2,000 tasks, \+10\/s, full in 80 s\.$/],
      [{ limits, waiting: 500 }, rising, 'normal', NORMAL],
      [{ limits, waiting: 1_898 }, falling, 'warning', falls],
    ]);
  });

  it('has refusals of the last minute with their rate', () => {
    const refused = { total: 65, per_second: 1.08, last_at: 1 };
    const since = new RegExp(`^1\\.1 submissions a second refused, since ${ago(30)}, 65 since the start\\.$`);
    expectEach([
      [{ refused }, { refused: (second) => Number(second >= 90) }, 'critical', since],
      [{ refused: { ...refused, per_second: 0.05 } }, {}, 'critical', /^3 submissions a minute refused/],
      [{ refused: { ...refused, per_second: 0 } }, {}, 'normal', NORMAL],
    ]);
  });

  it('has failures from six in a minute and a twentieth of the ended tasks on, and says whether they become more', () => {
    const each = (seconds: number) => (second: number) => Number(second % seconds === 0);
    const change = (before: number, after: number) => (second: number) => (second < 100 ? before : after);
    for (const [failed, completed, severity, text] of [
      [each(12), 1, 'normal', NORMAL],
      [each(10), 100, 'normal', NORMAL],
      [each(10), 1, 'warning', /^6 failures a minute, since/],
      [each(1), 100, 'critical', /^1 failure a second, since/],
      [each(10), 0, 'critical', /^6 failures a minute, since/],
      [change(1, 5), 1, 'critical', /^2\.3 failures a second, rising, since/],
      [change(5, 1), 1, 'critical', /^3\.7 failures a second, falling, since/],
    ] as const)
      expectEach([[{}, { failed, completed: () => completed }, severity, text]]);
  });

  it('names evicted dead letters, and warns before there are any', () => {
    expectEach([
      [{ evicted: 2_145, dead: 10_000 }, {}, 'warning', /^2,145 failed tasks were evicted\.$/],
      [{ dead: 9_000 }, {}, 'warning', /^9,000 of 10,000 failed tasks are kept\.$/],
      [{ dead: 8_999 }, {}, 'normal', NORMAL],
      [{ evicted: 1, dead: 0 }, {}, 'normal', NORMAL],
    ]);
  });

  it('has a pause, and a handlers module that cannot be loaded, with its place', () => {
    const paused = new RegExp(`^The queue is paused, since ${ago(0)}\\.$`);
    expectEach([
      [{ paused: true, paused_at_ms: (NOW + 1) * 1_000 }, {}, 'warning', paused],
      [{ module_problem: 'lib.ts:1:2: x' }, {}, 'warning', /^lib\.ts:1:2: x\.$/],
    ]);
    expect(situation({ module_problem: 'x' }).problems[0]?.kind).to.equal('module');
  });

  it('has advice for each reason of a stall, before all others', () => {
    for (const [reason, advice] of Object.entries({
      'the task threads do not start': 'log',
      '/data/tasks.db does not exist': 'DATA_DIR',
      'database or disk is full': 'DATA_DIR',
      'cannot reach PostgreSQL at db:5432: connection refused: start it, or fix DATABASE_URL': 'PostgreSQL server',
      'something else': 'log',
    })) {
      const { severity, problems } = situation({ stalled: { reason, since: 0 }, paused: true });
      expect([severity, ...problems.map(({ kind }) => kind)]).to.deep.equal(['critical', 'stalled', 'paused']);
      const [first] = problems;
      expect(first?.text).to.match(new RegExp(`^No task can be processed since .*: ${reason}\\.$`));
      expect(first?.advice).to.include(advice);
    }
  });
});
