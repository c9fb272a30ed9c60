import { expect } from 'chai';
import {
  dataText,
  formatChange,
  formatClock,
  formatRate,
  formatSize,
  formatSpan,
  formatTasks,
  outputText,
} from '../../../www/tasks/texts.ts';

const payload = (action: string, data: object) => JSON.stringify({ id: 'x', action, data, created_at: 1_800_000_000 });

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

describe('the summary of a task', () => {
  it('has the data of a whole payload', () => {
    expect(dataText(payload('sum', { numbers: [1, 2] }))).to.equal('{"numbers":[1,2]}');
    expect(dataText(payload('say "data":', { data: {} }))).to.equal('{"data":{}}');
  });

  it('has the start of the data of a payload that was cut off, and nothing if it was cut before', () => {
    expect(dataText(payload('sum', { text: 'abcdef' }).slice(0, 44))).to.equal('{"text":"abc…');
    expect(dataText(payload('a'.repeat(300), {}).slice(0, 256))).to.equal('');
    expect(dataText('')).to.equal('');
  });

  it('has the output of a whole result', () => {
    expect(outputText('{"output":"HELLO"}')).to.equal('HELLO');
    expect(outputText('{"output":{"a":[1]}}')).to.equal('{"a":[1]}');
    expect(outputText('{"output":6.5}')).to.equal('6.5');
    expect(outputText(null)).to.equal('');
  });

  it('has the start of an output that was cut off, even within an escape', () => {
    const whole = JSON.stringify({ output: 'a\nü\u2028\u0001b' });
    for (let end = 11; end < whole.length - 1; end++) {
      expect(outputText(whole.slice(0, end)), whole.slice(0, end)).to.match(/^(?!.*\\u0).*…$/s);
    }
    expect(outputText('{"output":[1,2,')).to.equal('[1,2,…');
  });

  it('shows bidirectional controls as escapes', () => {
    expect(outputText('{"output":"file \u202egpj.exe"}')).to.equal('file \\u202egpj.exe');
  });
});
