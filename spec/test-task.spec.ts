import { expect } from 'chai';
import { testTask } from '../main/test-task.ts';

describe('a task for a unit test', () => {
  it('records what a handler does, and takes fields of the task', () => {
    const { log, progress, ack, nack, signal, ...task } = testTask({ attempt: 3, action: 'resize' });
    log.info('begin');
    log.warn({ width: 1 }, 'small');
    log.error('broken', { width: 2 });
    log.debug({ width: 3 });
    progress(0.5, 'half');
    progress(1);
    ack();
    nack();
    task.controller.abort('stop');
    expect(task.lines).to.deep.equal([
      { level: 'info', message: 'begin', fields: {} },
      { level: 'warn', message: 'small', fields: { width: 1 } },
      { level: 'error', message: 'broken', fields: { width: 2 } },
      { level: 'debug', message: '', fields: { width: 3 } },
    ]);
    expect(task.reports).to.deep.equal([{ fraction: 0.5, note: 'half' }, { fraction: 1 }]);
    expect(task.settled).to.deep.equal(['ack', 'nack']);
    expect(signal.reason).to.equal('stop');
    expect(task).to.include({ attempt: 3, action: 'resize', traceparent: undefined });
  });
});
