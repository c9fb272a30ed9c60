import { expect } from 'chai';
import { type TaskDetail, timelineOf } from '../../../www/tasks/task-detail.ts';

const steps = (detail: Partial<TaskDetail>) =>
  timelineOf({ id: 'a', status: 'queued', ...detail }, undefined).map(({ title, reason }) =>
    reason === undefined ? title : `${title}: ${reason}`,
  );

describe('the timeline of a task', () => {
  it('numbers the failed attempts before a running and a retrying one', () => {
    const history = [
      { at_ms: 10, reason: 'first' },
      { at_ms: 20, reason: 'second' },
    ];
    expect(steps({ status: 'running', attempt: 3, history })).to.deep.equal([
      'Accepted',
      'Attempt 1 failed: first',
      'Attempt 2 failed: second',
      'Attempt 3 started',
    ]);
    expect(steps({ status: 'retrying', attempts: 2, history, reason: 'second' })).to.deep.equal([
      'Accepted',
      'Attempt 1 failed: first',
      'Attempt 2 failed: second',
      'Next attempt',
    ]);
  });

  it('says how many attempts are older than the history', () => {
    const history = [{ at_ms: 10, reason: 'last' }];
    expect(steps({ status: 'failed', attempts: 3, history, permanent: false, reason: 'last' })).to.deep.equal([
      'Accepted',
      '2 earlier attempts',
      'Attempt 3 failed: last',
      'Failed, no attempts left',
    ]);
  });

  it('says why a task failed if no history is known', () => {
    expect(steps({ status: 'failed', permanent: true, reason: 'broken' })).to.deep.equal([
      'Accepted',
      'Failed permanently: broken',
    ]);
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
