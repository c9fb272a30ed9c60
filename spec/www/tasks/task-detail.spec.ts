import { expect } from 'chai';
import { type TaskDetail, timelineOf } from '../../../www/tasks/task-detail.ts';

const steps = (detail: Readonly<Partial<TaskDetail>>) =>
  timelineOf({ id: 'a', status: 'queued', ...detail }, undefined).map(({ title, reason }) =>
    reason === undefined ? title : `${title}: ${reason}`,
  );

describe('the timeline of a task', () => {
  it('has the failed attempts, the number of those that are older than the history, and what follows', () => {
    const first = { started_at_ms: 9, ended_at_ms: 10, reason: 'first', stack: 'Error\n    at lib.ts:3:9' };
    const history = [first, { started_at_ms: null, ended_at_ms: 20, reason: 'second' }];
    const failures = ['Attempt 1 failed: first', 'Attempt 2 failed: second'];
    const last = { attempts: 3, history: [first], reason: 'first' };
    for (const [detail, expected] of [
      [{ status: 'running', attempt: 3, history }, [...failures, 'Attempt 3 started']],
      [{ status: 'retrying', attempts: 2, history, reason: 'second' }, [...failures, 'Next attempt']],
      [
        { status: 'failed', permanent: false, ...last },
        ['2 earlier attempts', 'Attempt 3 failed: first', 'Failed, no attempts left'],
      ],
      [{ status: 'failed', permanent: true, reason: 'broken' }, ['Failed permanently: broken']],
    ] as const)
      expect(steps(detail)).to.deep.equal(['Accepted', ...expected]);
  });

  it('shows the failed attempts of a completed task, and the exact time of its end', () => {
    const history = [
      { started_at_ms: 9, ended_at_ms: 10, reason: 'first' },
      { started_at_ms: 19, ended_at_ms: 20, reason: null },
    ];
    const detail = { id: 'a', status: 'completed', attempts: 2, processed_at: 0, history };
    expect(steps(detail)).to.deep.equal(['Accepted', 'Attempt 1 failed: first', 'Completed by attempt 2']);
    expect(timelineOf(detail, undefined).at(-1)).to.include({ atMs: 20, isExact: true, run: history[1] });
    expect(steps({ ...detail, attempts: 5 })[1]).to.equal('3 earlier attempts');
  });

  it('names the limit that a task waits for', () => {
    const limited = (limit?: TaskDetail['limit']) => steps({ status: 'limited', ...(limit && { limit }) })[1];
    expect(limited({ action: 'sum', key: 'acme', concurrency: 5, running: 5 })).to.equal(
      'Waiting for the limit of acme: 5 of 5 running',
    );
    expect(limited({ action: 'sum', running: 2 })).to.equal('Waiting for the limit of sum');
    expect(limited()).to.equal('Waiting for a limit');
    const nextStart = limited({ action: 'sum', running: 0, next_start_at_ms: 5000 });
    expect(nextStart).to.match(/^Waiting for the limit of sum: next start .*\d\d:\d\d:05$/);
  });

  it('takes exact times from events, and full seconds from a listing', () => {
    const detail = { id: 'a', status: 'completed', created_at: 100, processed_at: 103 };
    const exact = { id: 'a', action: 'sum', state: 'completed' as const, acceptedAtMs: 100_250, endedAtMs: 103_500 };
    const times = (known: typeof exact | undefined) =>
      timelineOf(detail, known).map(({ atMs, isExact }) => [atMs, isExact]);
    expect(times(exact)).to.deep.equal([
      [100_250, true],
      [103_500, true],
    ]);
    expect(times(undefined)).to.deep.equal([
      [100_000, false],
      [103_000, false],
    ]);
  });
});
