import { expect } from 'chai';
import { describeLimit, limitText } from '../../../www/tasks/limits.ts';

describe('limits on the task board', () => {
  it('say how many tasks run, or when the next one starts', () => {
    expect(limitText({ action: 'sum', key: 'acme', concurrency: 5, running: 5 })).to.equal('acme: 5 of 5 running');
    expect(limitText({ action: 'sum', concurrency: 5000, running: 5000 })).to.equal('sum: 5,000 of 5,000 running');
    expect(limitText({ action: 'sum', concurrency: 2, running: 1 })).to.equal('sum: 1 of 2 running, the rest reserved');
    expect(limitText({ action: 'sum', running: 1, next_start_at_ms: 5000 })).to.match(/^sum: next start .*:05$/);
    expect(limitText({ action: 'sum', running: 1 })).to.equal('sum');
    expect(limitText({ action: 'W'.repeat(33), running: 1 })).to.equal(`${'W'.repeat(32)}…`);
  });

  it('are described by their numbers', () => {
    expect(describeLimit({ concurrency: 1000, rate: { count: 10, seconds: 0.5 } })).to.equal(
      '1,000 at once, 10 in 0.5 s',
    );
    expect(describeLimit({})).to.equal('');
  });
});
