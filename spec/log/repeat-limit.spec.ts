import { mock } from 'node:test';
import { expect } from 'chai';
import { RepeatLimit } from '../../main/log/repeat-limit.ts';
import { afterTest } from '../support/cleanup.ts';

describe('the limit of repeated lines', () => {
  beforeEach(() => {
    mock.timers.enable({ apis: ['setTimeout'] });
    afterTest(() => mock.timers.reset());
  });

  const admitted = (limit: RepeatLimit, kind: string, lines: number, report: (suppressed: number) => void = () => {}) =>
    Array.from({ length: lines }, () => limit.admit(kind, report)).filter(Boolean).length;

  it('admits 20 lines of each kind in 10 seconds, and reports the others once', () => {
    const limit = new RepeatLimit();
    const reports: number[] = [];
    const report = (suppressed: number) => reports.push(suppressed);
    expect(admitted(limit, 'a', 25, report)).to.equal(20);
    expect(admitted(limit, 'b', 20, report)).to.equal(20);
    mock.timers.tick(9_999);
    expect(admitted(limit, 'a', 2, report)).to.equal(0);
    expect(reports).to.deep.equal([]);
    mock.timers.tick(1);
    expect(reports).to.deep.equal([7]);
    expect(admitted(limit, 'a', 25, report)).to.equal(20);
    expect(limit.suppressed).to.equal(12);
  });

  it('counts as one all kinds beyond its bound', () => {
    const limit = new RepeatLimit();
    const kinds = Array.from({ length: 1000 }, (_, index) => `kind ${index}`);
    expect(kinds.filter((kind) => limit.admit(kind, () => {}))).to.have.length(255 + 20);
    expect(admitted(limit, 'kind 0', 5)).to.equal(5);
  });
});
