import { expect } from 'chai';
import type { TaskEvent } from '../../../www/client/task-state.ts';
import { afterEvent, afterListing, type BoardTask } from '../../../www/tasks/board-task.ts';
import { factsOf, limitText, type TaskDetail, timelineOf } from '../../../www/tasks/task-detail.ts';
import * as texts from '../../../www/tasks/texts.ts';

const { dataText, formatClock, outputText } = texts;

const listed: BoardTask = { id: 'a', action: 'resize', state: 'queued', payload: '{}', accepted_at_ms: 5_000 };

const success = { started_at_ms: 19, ended_at_ms: 20, reason: null };

const steps = (detail: Readonly<Partial<TaskDetail>>) =>
  timelineOf({ id: 'a', status: 'queued', ...detail }, undefined).map(({ title, reason }) =>
    reason === undefined ? title : `${title}: ${reason}`,
  );

describe('the timeline of a task', () => {
  it('has the failed attempts, the number of those that are older than the history, and what follows', () => {
    const first = { started_at_ms: 9, ended_at_ms: 10, reason: 'first', stack: 'Error\n    at lib.ts:3:9' };
    const history = [first, { started_at_ms: null, ended_at_ms: 20, reason: 'second' }];
    const failures = ['Attempt 1 failed: first', 'Attempt 2 failed: second'];
    const exhausted = { status: 'failed', permanent: false, attempts: 3, history: [first], reason: 'first' };
    const completed = { status: 'completed', processed_at: 0, history: [first, success] };
    for (const [detail, expected] of [
      [{ status: 'running', attempt: 3, history }, [...failures, 'Attempt 3 started']],
      [{ status: 'retrying', attempts: 2, history, reason: 'second' }, [...failures, 'Next attempt']],
      [exhausted, ['2 earlier attempts', 'Attempt 3 failed: first', 'Failed, no attempts left']],
      [{ status: 'failed', permanent: true, reason: 'broken' }, ['Failed permanently: broken']],
      [{ ...completed, attempts: 2 }, ['Attempt 1 failed: first', 'Completed by attempt 2']],
      [{ ...completed, attempts: 5 }, ['3 earlier attempts', 'Attempt 4 failed: first', 'Completed by attempt 5']],
    ] as const)
      expect(steps(detail)).to.deep.equal(['Accepted', ...expected]);
  });

  it('names the limit that a task waits for', () => {
    const limited = (limit: object) => steps({ status: 'limited', ...limit })[1];
    expect(limited({})).to.equal('Waiting for a limit');
    const limit = { action: 'sum', key: 'acme', concurrency: 5, running: 5 };
    expect(limited({ limit })).to.equal('Waiting for the limit of acme: 5 of 5 running');
    for (const [limit, text] of [
      [{ action: 'sum', concurrency: 5000, running: 5000 }, /^sum: 5,000 of 5,000 running$/],
      [{ action: 'sum', concurrency: 2, running: 1 }, /^sum: 1 of 2 running, the rest reserved$/],
      [{ action: 'sum', running: 1, next_start_at_ms: 5000 }, /^sum: next start .*:05$/],
      [{ action: 'W'.repeat(33), running: 1 }, /^W{32}…$/],
    ] as const)
      expect(limitText(limit)).to.match(text);
  });

  it('takes exact times from events or the history, and full seconds from a listing', () => {
    const detail = { id: 'a', status: 'completed', attempts: 1, created_at: 100, processed_at: 103 };
    const known = { ...listed, accepted_at_ms: 100_250, ended_at_ms: 103_500 };
    const ran = timelineOf({ ...detail, history: [success] }, undefined);
    expect(ran.at(-1)).to.include({ atMs: 20, isExact: true, run: success });
    const times = (task?: BoardTask) => timelineOf(detail, task).map((step) => `${step.atMs} ${step.isExact}`);
    expect(times(known)).to.deep.equal(['100250 true', '103500 true']);
    expect(times()).to.deep.equal(['100000 false', '103000 false']);
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
    const shown = (fields: object) => factsOf({ ...task, ...fields }, undefined).map(({ text }) => text);
    expect(shown({ waited_ms: 546_000, ran_ms: 70, attempts: 1 })).to.deep.equal(['waited 9 min, ran 70 ms']);
    expect(shown({ waited_ms: null, ran_ms: 70, attempts: 2 })).to.deep.equal(['ran 70 ms in 2 attempts']);
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

describe('a task on the board', () => {
  it('keeps its action after an event without one, and has a placeholder until it is listed', () => {
    expect(afterEvent(listed, { event: 'started', id: 'a', at: 1, attempt: 1 })?.action).to.equal('resize');
    const unlisted = afterEvent(undefined, { event: 'started', id: 'a', at: 1, attempt: 1 });
    expect(unlisted?.action).to.equal('unknown');
    expect(afterListing(unlisted, listed, true)).to.include({ ...listed, state: 'running', attempt: 1 });
  });

  it('ignores an event that only newer nodes report', () => {
    expect(afterEvent(listed, { event: 'archived', id: 'a', at: 1 } as unknown as TaskEvent)).to.equal(listed);
  });

  it('keeps its state when another node reports its acceptance late', () => {
    const accepted = { event: 'accepted', id: 'a', action: 'resize', at: 2 } as const;
    for (const event of ['started', 'retrying', 'completed', 'cancelled'] as const) {
      const task = afterEvent(undefined, { event, id: 'a', at: 1, attempts: 1 } as TaskEvent);
      expect(task && afterEvent(task, accepted), event).to.deep.equal({ ...task, action: 'resize', accepted_at_ms: 2 });
    }
  });

  it('is scheduled until it starts, and keeps the time of its acceptance if it is run before its time', () => {
    const scheduled = afterEvent(undefined, { event: 'scheduled', id: 'a', action: 'resize', at: 5, run_at_ms: 9 });
    expect(scheduled).to.deep.equal({ id: 'a', action: 'resize', state: 'scheduled', accepted_at_ms: 5, run_at_ms: 9 });
    const queued = afterEvent(scheduled, { event: 'accepted', id: 'a', at: 7 });
    expect(queued).to.deep.equal({ id: 'a', action: 'resize', state: 'queued', accepted_at_ms: 5 });
    expect(afterEvent(scheduled, { event: 'started', id: 'a', at: 9, attempt: 1 })).to.not.have.property('run_at_ms');
  });

  it('takes exact times from events, and all else from a listing that is newer', () => {
    const known = afterEvent(undefined, { event: 'accepted', id: 'a', action: 'resize', at: 5_321 });
    const completed: BoardTask = { ...listed, state: 'completed', result: '1', ended_at_ms: 6_000 };
    expect(afterListing(known, completed, false)).to.deep.equal({ ...completed, accepted_at_ms: 5_321 });
  });
});

const payload = (action: string, data: object) => JSON.stringify({ id: 'x', action, data, created_at: 1_800_000_000 });

describe('amounts on the task board', () => {
  it('have the precision that their size needs', () => {
    const spans = [0.42, 45, 545, 999.6, 3_420, 75_000, 720_000, 18_720_000, 604_800_000].map(texts.formatSpan);
    expect(spans).to.deep.equal(['0.4 ms', '45 ms', '545 ms', '1.0 s', '3.4 s', '75 s', '12 min', '5.2 h', '7 d']);
    expect([0, 0.02, 0.44, 12.46, 1_234].map(texts.formatRate)).to.deep.equal(['0', 'under 0.1', '0.4', '12', '1,234']);
    expect([40, -3.21, 0.01].map(texts.formatChange)).to.deep.equal(['+40/s', '−3.2/s', '±0/s']);
    expect([812, 1_500, 2_000_000].map(texts.formatSize)).to.deep.equal(['812 bytes', '1.5 kB', '2 MB']);
    expect([1, 1_234].map(texts.formatTasks)).to.deep.equal(['1 task', '1,234 tasks']);
  });

  it('have milliseconds if they are known, and a date unless it is today', () => {
    const now = new Date(2026, 4, 6, 12);
    const atMs = new Date(2026, 4, 6, 9, 8, 7, 65).getTime();
    expect(formatClock(atMs, true, now)).to.equal('09:08:07.065');
    expect(formatClock(atMs, false, now)).to.equal('09:08:07');
    expect(formatClock(atMs - 86_400_000, false, now)).to.equal('5 May 2026, 09:08:07');
  });
});

describe('the summary of a task', () => {
  it('has the data of a payload, or their start if the payload was cut off after it', () => {
    for (const [text, expected] of [
      [payload('sum', { numbers: [1, 2] }), '{"numbers":[1,2]}'],
      [payload('say "data":', { data: {} }), '{"data":{}}'],
      [payload('sum', { text: 'abcdef' }).slice(0, 44), '{"text":"abc…'],
      [payload('a'.repeat(300), {}).slice(0, 256), ''],
      ['', ''],
    ] as const)
      expect(dataText(text)).to.equal(expected);
  });

  it('has the output of a result, with bidirectional controls as escapes', () => {
    for (const [text, expected] of [
      ['{"output":"HELLO"}', 'HELLO'],
      ['{"output":{"a":[1]}}', '{"a":[1]}'],
      ['{"output":6.5}', '6.5'],
      [null, ''],
      ['{"output":"file \u202egpj.exe"}', 'file \\u202egpj.exe'],
    ] as const)
      expect(outputText(text)).to.equal(expected);
  });

  it('has the start of an output that was cut off, even within an escape', () => {
    const whole = JSON.stringify({ output: 'a\nü\u2028\u0001b' });
    for (let end = 11; end < whole.length - 1; end++)
      expect(outputText(whole.slice(0, end)), whole.slice(0, end)).to.match(/^(?!.*\\u0).*…$/s);
    expect(outputText('{"output":[1,2,')).to.equal('[1,2,…');
  });
});
