import { mock } from 'node:test';
import { expect } from 'chai';
import { HandlerLog } from '../../../workers/tasks/handler-log.ts';
import type { HandlerLogLine } from '../../../workers/tasks/messages.ts';

const message = 'log lines of a handlers module were left out';
const report = (suppressed: number) => ({ level: 'warn', message, fields: JSON.stringify({ suppressed }) });

describe('the log of handlers', () => {
  it('takes an error in place of the fields, cuts long messages, and omits fields that are too large or no JSON', () => {
    const lines: HandlerLogLine[] = [];
    const log = new HandlerLog((line) => void lines.push(line));
    for (const args of [[new Error('full')], ['cannot save', new Error('full')]])
      log.write('error', { task: 'a' }, args);
    expect(lines.map(({ message }) => message)).to.deep.equal(['full', 'cannot save']);
    for (const { fields = '' } of lines)
      expect(JSON.parse(fields)).to.nested.include({ task: 'a', 'err.message': 'full' });
    lines.length = 0;
    const text = 'ü'.repeat(3000);
    const circular: Record<string, unknown> = {};
    circular.own = circular;
    for (const fields of [{ text }, circular, { toJSON: () => expect.fail() }])
      log.write('info', { task: 'a' }, [text, fields]);
    for (const args of [[], [Symbol('odd'), 5]]) log.write('info', {}, args);
    const empty = { message: '', fields: '{}' };
    const omitted = { message: 'ü'.repeat(2048), fields: '{"omitted":"the fields of this line","task":"a"}' };
    expect(lines.map(({ level: _, ...line }) => line)).to.deep.equal([omitted, omitted, omitted, empty, empty]);
  });

  it('sends 100 lines a second of all levels together, and reports how many it left out with a later line or after the second', () => {
    mock.timers.enable({ apis: ['setTimeout'] });
    let nowMs = 5;
    mock.method(performance, 'now', () => nowMs);
    const lines: HandlerLogLine[] = [];
    const log = new HandlerLog((line) => void lines.push(line));
    /** Writes lines. Returns how many were sent, and the reports among them. */
    const write = (at: number, count: number) => {
      nowMs = at;
      lines.length = 0;
      for (let line = 0; line < count; line++) log.write(line % 2 === 0 ? 'info' : 'error', {}, ['text']);
      const reports = lines.filter(({ level }) => level === 'warn');
      return [lines.length - reports.length, reports];
    };
    expect(write(5, 150)).to.deep.equal([100, []]);
    expect(write(1004, 1)).to.deep.equal([0, []]);
    // The timer has not fired, because the thread was blocked.
    expect(write(1005, 150)).to.deep.equal([100, [report(51)]]);
    expect(write(9000, 1)).to.deep.equal([1, [report(50)]]);
    expect(write(9000, 102)).to.deep.equal([99, []]);
    mock.timers.tick(999);
    expect(lines).to.have.length(99);
    mock.timers.tick(1);
    expect(lines.at(-1)).to.deep.equal(report(3));
  });
});
