import { expect } from 'chai';
import { perform } from '../../../workers/tasks/actions.ts';
import { PermanentError } from '../../../workers/tasks/handlers-api.ts';

describe('a built-in action', () => {
  for (const [action, rule, ...cases] of [
    ['uppercase', 'returns the text in upper case', [{ text: 'straße, ﬁn, ǆ, 1é' }, 'STRASSE, FIN, Ǆ, 1É']],
    ['uppercase', 'returns an empty string without a text', [{}, ''], [{ text: '' }, ''], [{ Text: 'abc' }, '']],
    [
      'sum',
      'adds the numbers up, also more than a call can have arguments, and returns 0 without numbers',
      [{ numbers: [1, 2.5, -3] }, 0.5],
      // JSON has no -0.
      [{ numbers: [-0] }, 0],
      [{ numbers: Array(500_000).fill(1) }, 500_000],
      [{ numbers: [Number.MAX_VALUE, -Number.MAX_VALUE] }, 0],
      [{}, 0],
      [{ numbers: [] }, 0],
    ],
    [
      'sum',
      'rounds beyond 2^53 after each addition, from left to right',
      [{ numbers: [2 ** 53, 1, 1] }, 2 ** 53],
      [{ numbers: [1, 1, 2 ** 53] }, 2 ** 53 + 2],
      [{ numbers: [1e16, 1, -1e16] }, 0],
    ],
  ] as [string, string, ...[data: Record<string, unknown>, output: unknown][]][]) {
    it(`${action} ${rule}`, () => {
      for (const [data, output] of cases) expect(perform(action, data)).to.deep.equal(output);
    });
  }

  for (const [action, reason, pattern, values] of [
    ['uppercase', 'text must be a string', '{"text":?}', 'null 0 1 true [] ["abc"] {}'],
    ['sum', 'numbers must be an array', '{"numbers":?}', 'null 1 "1" "" true {} {"length":1,"0":1}'],
    ['sum', 'numbers must hold finite numbers only', '{"numbers":[1,?]}', '"2" null true [] [1] {} 1e400 -1e400'],
    ['sum', 'numbers is too large', '{"numbers":[?]}', '1e308,1e308 -1e308,-1e308'],
  ] as const) {
    it(`${action} fails permanently: data.${reason}`, () => {
      for (const value of values.split(' '))
        expect(() => perform(action, JSON.parse(pattern.replace('?', value))), value).to.throw(
          PermanentError,
          `data.${reason}`,
        );
    });
  }

  it('of any other name returns the word processed, whatever the data', () => {
    const names = ['', '__proto__', 'constructor', 'toString', 'get', 'SUM', 'Uppercase', 'sum ', 'x'];
    for (const action of names) expect(perform(action, { text: 'abc', numbers: [1] }), action).to.equal('processed');
  });
});
