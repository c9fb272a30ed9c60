import { expect } from 'chai';
import { dataText, outputText } from '../../../www/tasks/texts.ts';

const payload = (action: string, data: object) => JSON.stringify({ id: 'x', action, data, created_at: 1_800_000_000 });

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
