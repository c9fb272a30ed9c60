import { expect } from 'chai';
import { factsOf, limitText, type TaskDetail, timelineOf } from '../../../www/tasks/task-detail.ts';

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
    const limit = { action: 'sum', key: 'acme', concurrency: 5, running: 5 };
    expect(limited(limit)).to.equal('Waiting for the limit of acme: 5 of 5 running');
    expect(limited()).to.equal('Waiting for a limit');
    expect(limitText({ action: 'sum', concurrency: 5000, running: 5000 })).to.equal('sum: 5,000 of 5,000 running');
    expect(limitText({ action: 'sum', concurrency: 2, running: 1 })).to.equal('sum: 1 of 2 running, the rest reserved');
    expect(limitText({ action: 'sum', running: 1, next_start_at_ms: 5000 })).to.match(/^sum: next start .*:05$/);
    expect(limitText({ action: 'W'.repeat(33), running: 1 })).to.equal(`${'W'.repeat(32)}…`);
  });

  it('takes exact times from events, and full seconds from a listing', () => {
    const detail = { id: 'a', status: 'completed', created_at: 100, processed_at: 103 };
    const exact = {
      id: 'a',
      action: 'sum',
      state: 'completed' as const,
      accepted_at_ms: 100_250,
      ended_at_ms: 103_500,
    };
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

describe('the facts of a task', () => {
  const task = { id: 'a', status: 'queued' };

  it('are what its submission said, without the defaults', () => {
    expect(factsOf({ ...task, priority: 3 }, undefined)).to.deep.equal([]);
    const said = { priority: 1, limit_key: 'acme', schedule: 'nightly', callback_url: 'https://example.com/' };
    expect(factsOf({ ...task, ...said }, undefined)).to.deep.equal([
      { term: 'Priority', text: '1' },
      { term: 'Limit key', text: 'acme', address: '/?view=limits' },
      { term: 'Schedule', text: 'nightly', address: '/?view=schedules&q=nightly' },
      { term: 'Callback', text: 'https://example.com/', address: '/?action=callback&q=a' },
    ]);
  });

  it('tell how long and how often the task ran, however long it waited', () => {
    const texts = (fields: object) => factsOf({ ...task, ...fields }, undefined).map(({ text }) => text);
    expect(texts({ waited_ms: 546_000, ran_ms: 70, attempts: 1 })).to.deep.equal(['waited 9 min, ran 70 ms']);
    expect(texts({ waited_ms: null, ran_ms: 70, attempts: 2 })).to.deep.equal(['ran 70 ms in 2 attempts']);
  });

  it('name the task and the last answer of a callback', () => {
    const data = { url: 'https://example.com/', task: 'b', action: 'sum', status: 'completed' };
    const submission = { action: 'callback', data };
    const callback = { term: 'Callback for', text: 'b', address: '/?task=b', rest: ' to https://example.com/' };
    expect(factsOf(task, submission)).to.deep.equal([callback]);
    const answers = (detail: object) => factsOf({ ...task, ...detail }, submission)[1]?.text;
    expect(answers({ status: 'retrying', reason: 'answered 503' })).to.equal('answered 503');
    expect(answers({ status: 'completed', result: '{"output":{"status":200,"answer":"ok"}}' })).to.equal('200 ok');
    expect(answers({ status: 'completed', result: '{"output":"processed"}' })).to.equal(undefined);
    expect(factsOf(task, { action: 'callback', data: { url: 5 } })).to.deep.equal([]);
  });
});
