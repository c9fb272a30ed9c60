import { expect } from 'chai';
import { factsOf } from '../../../www/tasks/task-facts.ts';

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
