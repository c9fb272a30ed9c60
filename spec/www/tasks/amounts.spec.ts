import { expect } from 'chai';
import {
  formatChange,
  formatClock,
  formatRate,
  formatSize,
  formatSpan,
  formatTasks,
} from '../../../www/tasks/texts.ts';

describe('amounts on the task board', () => {
  it('have the precision that their size needs', () => {
    const spans = [0.42, 45, 545, 999.6, 3_420, 75_000, 720_000, 18_720_000, 604_800_000].map(formatSpan);
    expect(spans).to.deep.equal(['0.4 ms', '45 ms', '545 ms', '1.0 s', '3.4 s', '75 s', '12 min', '5.2 h', '7 d']);
    const rates = [0, 0.02, 0.44, 12.46, 1_234].map(formatRate);
    expect(rates).to.deep.equal(['0', 'under 0.1', '0.4', '12', '1,234']);
    expect([40, -3.21, 0.01].map(formatChange)).to.deep.equal(['+40/s', '−3.2/s', '±0/s']);
    expect([812, 1_500, 2_000_000].map(formatSize)).to.deep.equal(['812 bytes', '1.5 kB', '2 MB']);
    expect([1, 1_234].map(formatTasks)).to.deep.equal(['1 task', '1,234 tasks']);
  });

  it('have milliseconds if they are known, and a date unless it is today', () => {
    const now = new Date(2026, 4, 6, 12);
    const atMs = new Date(2026, 4, 6, 9, 8, 7, 65).getTime();
    expect(formatClock(atMs, true, now)).to.equal('09:08:07.065');
    expect(formatClock(atMs, false, now)).to.equal('09:08:07');
    expect(formatClock(atMs - 86_400_000, false, now)).to.equal('5 May 2026, 09:08:07');
  });
});
