import { expect } from 'chai';
import fc from 'fast-check';
import { perform } from '../../../workers/tasks/actions.ts';
import { PermanentError } from '../../../workers/tasks/handlers-api.ts';

const outputs: [action: string, rule: string, cases: [data: Record<string, unknown>, output: unknown][]][] = [
  ['uppercase', 'returns the text in upper case', [[{ text: 'straße, ﬁn, ǆ, 1é' }, 'STRASSE, FIN, Ǆ, 1É']]],
  [
    'uppercase',
    'returns an empty string without a text',
    [{}, { text: '' }, { Text: 'abc' }].map((data) => [data, '']),
  ],
  [
    'sum',
    'adds the numbers up, also more than a call can have arguments',
    [
      [{ numbers: [1, 2.5, -3] }, 0.5],
      [{ numbers: Array(500_000).fill(1) }, 500_000],
      [{ numbers: [Number.MAX_VALUE, -Number.MAX_VALUE] }, 0],
    ],
  ],
  ['sum', 'returns 0 without numbers', [{}, { numbers: [] }].map((data) => [data, 0])],
  [
    'sum',
    'rounds beyond 2^53 after each addition, from left to right',
    [
      [{ numbers: [2 ** 53, 1, 1] }, 2 ** 53],
      [{ numbers: [1, 1, 2 ** 53] }, 2 ** 53 + 2],
      [{ numbers: [1e16, 1, -1e16] }, 0],
    ],
  ],
];

/** Data as JSON, which a permanent failure follows from. */
const failures: [action: string, reason: string, data: string[]][] = [
  [
    'uppercase',
    'data.text must be a string',
    ['null', '0', '1', 'true', '[]', '["abc"]', '{}'].map((text) => `{"text":${text}}`),
  ],
  [
    'sum',
    'data.numbers must be an array',
    ['null', '1', '"1"', '""', 'true', '{}', '{"length":1,"0":1}'].map((numbers) => `{"numbers":${numbers}}`),
  ],
  [
    'sum',
    'data.numbers must hold finite numbers only',
    ['"2"', 'null', 'true', '[]', '[1]', '{}', '1e400', '-1e400'].map((item) => `{"numbers":[1,${item},3]}`),
  ],
  ['sum', 'the sum of data.numbers is too large', ['', '-'].map((sign) => `{"numbers":[${sign}1e308,${sign}1e308]}`)],
];

describe('a built-in action', () => {
  for (const [action, rule, cases] of outputs) {
    it(`${action} ${rule}`, () => {
      for (const [data, output] of cases) expect(perform(action, data)).to.equal(output);
    });
  }

  for (const [action, reason, data] of failures) {
    it(`${action} fails permanently: ${reason}`, () => {
      for (const each of data) expect(() => perform(action, JSON.parse(each)), each).to.throw(PermanentError, reason);
    });
  }

  it('sum returns the same for whole numbers in any order, and never -0, which JSON does not have', () => {
    fc.assert(
      fc.property(fc.array(fc.integer()), (numbers) => {
        const total = perform('sum', { numbers });
        expect(total).to.equal(Number(numbers.reduce((sum, number) => sum + BigInt(number), 0n)));
        expect(perform('sum', { numbers: numbers.toReversed() })).to.equal(total);
        expect(Object.is(total, -0)).to.equal(false);
      }),
    );
  });
});

describe('any other action', () => {
  it('returns the word processed, whatever its name and data', () => {
    const actions = fc.string().filter((action) => !['uppercase', 'sum'].includes(action));
    fc.assert(
      fc.property(actions, fc.dictionary(fc.string(), fc.jsonValue()), (action, data) => {
        expect(perform(action, data)).to.equal('processed');
      }),
    );
    const names = ['', '__proto__', 'constructor', 'toString', 'hasOwnProperty', 'get', 'SUM', 'Uppercase', 'sum '];
    for (const action of names) expect(perform(action, { text: 'abc', numbers: [1] }), action).to.equal('processed');
  });
});
