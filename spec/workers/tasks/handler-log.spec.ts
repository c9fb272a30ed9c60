import { mock } from 'node:test';
import { expect } from 'chai';
import { HandlerLog } from '../../../workers/tasks/handler-log.ts';
import type { HandlerLogLine } from '../../../workers/tasks/messages.ts';

/** Creates a log with a clock that the spec controls. */
function createLog() {
  const clock = { nowMs: 5 };
  const lines: HandlerLogLine[] = [];
  mock.method(performance, 'now', () => clock.nowMs);
  const log = new HandlerLog((line) => void lines.push(line));
  const write = (count: number) => {
    for (let line = 0; line < count; line++) log.write('info', {}, [`at ${clock.nowMs}`]);
  };
  /** Returns how many lines with a message were sent. */
  const sent = (message: string) => lines.filter((line) => line.message === message).length;
  const reports = () => lines.filter(({ level }) => level === 'warn');
  return { clock, write, sent, reports };
}

const report = (suppressed: number): HandlerLogLine => ({
  level: 'warn',
  message: 'log lines of a handlers module were left out',
  fields: JSON.stringify({ suppressed }),
});

describe('HandlerLog', () => {
  it('sends lines again after a second in which the thread was blocked, and reports how many were left out', () => {
    const { clock, write, sent, reports } = createLog();
    write(150);
    clock.nowMs = 1004;
    write(1);
    expect([sent('at 5'), sent('at 1004'), reports()]).to.deep.equal([100, 0, []]);
    clock.nowMs = 1005;
    write(150);
    expect([sent('at 1005'), reports()]).to.deep.equal([100, [report(51)]]);
    clock.nowMs = 9000;
    write(1);
    expect([sent('at 9000'), reports()]).to.deep.equal([1, [report(51), report(50)]]);
  });

  it('reports how many lines were left out although no other line follows', () => {
    mock.timers.enable({ apis: ['setTimeout'] });
    const { write, reports } = createLog();
    write(103);
    mock.timers.tick(999);
    expect(reports()).to.deep.equal([]);
    mock.timers.tick(1);
    expect(reports()).to.deep.equal([report(3)]);
  });
});
