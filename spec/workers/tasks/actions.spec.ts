import { expect } from 'chai';
import fc from 'fast-check';
import { perform } from '../../../workers/tasks/actions.ts';
import { PermanentError } from '../../../workers/tasks/handlers-api.ts';

describe('the action uppercase', () => {
  it('gives the text in upper case', () => {
    expect(perform('uppercase', { text: 'abc' })).to.equal('ABC');
    expect(perform('uppercase', { text: 'straße, ﬁn, ǆ, 1é' })).to.equal('STRASSE, FIN, Ǆ, 1É');
  });

  it('gives an empty string where there is no text', () => {
    expect(perform('uppercase', {})).to.equal('');
    expect(perform('uppercase', { text: '' })).to.equal('');
    expect(perform('uppercase', { Text: 'abc' })).to.equal('');
  });

  it('fails for good when the text is no string', () => {
    for (const text of [null, 0, 1, true, [], ['abc'], {}]) {
      expect(() => perform('uppercase', { text }), JSON.stringify(text)).to.throw(
        PermanentError,
        'data.text must be a string',
      );
    }
  });
});

describe('the action sum', () => {
  it('adds the numbers up', () => {
    expect(perform('sum', { numbers: [1, 2.5, -3] })).to.equal(0.5);
    expect(perform('sum', { numbers: [7] })).to.equal(7);
  });

  it('gives 0 where there are none', () => {
    expect(perform('sum', {})).to.equal(0);
    expect(perform('sum', { numbers: [] })).to.equal(0);
  });

  it('gives the sum of any whole numbers in any order, and none that JSON cannot hold', () => {
    fc.assert(
      fc.property(fc.array(fc.integer()), (numbers) => {
        const total = perform('sum', { numbers });
        expect(total).to.equal(Number(numbers.reduce((sum, number) => sum + BigInt(number), 0n)));
        expect(perform('sum', { numbers: numbers.toReversed() })).to.equal(total);
        expect(Object.is(JSON.parse(JSON.stringify(total)), total)).to.equal(true);
      }),
    );
  });

  it('adds up more numbers than a call has arguments', () => {
    expect(perform('sum', { numbers: Array(500_000).fill(1) })).to.equal(500_000);
  });

  it('fails for good when there is no list', () => {
    for (const numbers of [null, 1, '1', '', true, {}, { length: 1, 0: 1 }]) {
      expect(() => perform('sum', { numbers }), JSON.stringify(numbers)).to.throw(
        PermanentError,
        'data.numbers must be an array',
      );
    }
  });

  it('fails for good on an item that is no finite number', () => {
    for (const text of ['"2"', 'null', 'true', '[]', '[1]', '{}', '1e400', '-1e400']) {
      const data = JSON.parse(`{"numbers":[1,${text},3]}`);
      expect(() => perform('sum', data), text).to.throw(PermanentError, 'data.numbers must hold finite numbers only');
    }
  });

  it('fails for good when the sum is too large for a number', () => {
    for (const sign of [1, -1]) {
      const numbers = Array(2).fill(sign * Number.MAX_VALUE);
      expect(() => perform('sum', { numbers })).to.throw(PermanentError, 'the sum of data.numbers is too large');
    }
    expect(perform('sum', { numbers: [Number.MAX_VALUE, -Number.MAX_VALUE] })).to.equal(0);
  });
});

describe('the action sum beyond 2^53', () => {
  it('rounds after each addition, from left to right', () => {
    expect(perform('sum', { numbers: [2 ** 53, 1, 1] })).to.equal(2 ** 53);
    expect(perform('sum', { numbers: [1, 1, 2 ** 53] })).to.equal(2 ** 53 + 2);
    expect(perform('sum', { numbers: [1e16, 1, -1e16] })).to.equal(0);
  });
});

describe('any other action', () => {
  it('gives the word processed, whatever its name and data', () => {
    const known = new Set(['uppercase', 'sum']);
    const actions = fc.string().filter((action) => !known.has(action));
    fc.assert(
      fc.property(actions, fc.dictionary(fc.string(), fc.jsonValue()), (action, data) => {
        expect(perform(action, data)).to.equal('processed');
      }),
    );
  });

  it('is one with the name of a property that objects have, or a known name in other letters', () => {
    const names = ['', '__proto__', 'constructor', 'toString', 'hasOwnProperty', 'get', 'SUM', 'Uppercase', 'sum '];
    for (const action of names) expect(perform(action, { text: 'abc', numbers: [1] }), action).to.equal('processed');
  });
});
