import { expect } from 'chai';
import { formatBetween, formatMeasured } from '../../../www/tasks/amounts.ts';
import { type Draft, DraftError, parseDraft } from '../../../www/tasks/draft.ts';
import { indent, readOutput, readPayload } from '../../../www/tasks/json-text.ts';

const draft = (values: Partial<Draft>): Draft => ({
  kind: 'uppercase',
  text: '',
  numbers: '',
  action: '',
  json: '',
  ...values,
});

describe('a draft in the form', () => {
  it('becomes the task that it describes', () => {
    const other = { kind: 'other', action: 'x' } as const;
    for (const [values, action, data] of [
      [{ text: ' a ' }, 'uppercase', { text: ' a ' }],
      [{ kind: 'sum', numbers: ' 1,2;3 \n -4.5e1 ' }, 'sum', { numbers: [1, 2, 3, -45] }],
      [{ kind: 'sum' }, 'sum', { numbers: [] }],
      [{ kind: 'other', action: ' x ', json: ' {"a": [1]} ' }, 'x', { a: [1] }],
      [{ ...other, choice: 'y' }, 'y', {}],
      [{ ...other, choice: '' }, 'x', {}],
    ] as const)
      expect(parseDraft(draft(values))).to.deep.equal({ action, data });
  });

  it('names its invalid field', () => {
    const texts = ['{', '[]', 'null', '1', '"x"'];
    for (const [values, field] of [
      [{ kind: 'sum', numbers: '1, two' }, 'numbers'],
      [{ kind: 'sum', numbers: '1e999' }, 'numbers'],
      [{ kind: 'other', action: '  ', json: '{}' }, 'action'],
      ...texts.map((json) => [{ kind: 'other', action: 'x', json }, 'json'] as const),
    ] as const)
      expect(() => parseDraft(draft(values)), JSON.stringify(values))
        .to.throw(DraftError)
        .with.property('field', field);
  });
});

describe('a row on the board', () => {
  it('is shown whatever its payload and result hold', () => {
    expect(readPayload('{"action":"x","data":{"a":1},"id":"1"}')).to.deep.equal({ action: 'x', data: { a: 1 } });
    for (const payload of ['', 'null', '{']) expect(readPayload(payload).action).to.equal('unreadable');
    const outputs = ['{"output":"a"}', '{"output":6.5}', 'nonsense', null].map(readOutput);
    expect(outputs).to.deep.equal(['a', '6.5', 'nonsense', '']);
    expect(indent('{"a":1}')).to.equal('{\n  "a": 1\n}');
    expect(indent('nonsense')).to.equal('nonsense');
  });

  it('shows the duration of the task as precisely as it is known', () => {
    expect([120, 3_400, 75_000].map(formatMeasured)).to.deep.equal(['0.12 s', '3.4 s', '75 s']);
    const between = [formatBetween(5, 5), formatBetween(5, 8), formatBetween(5, null)];
    expect(between).to.deep.equal(['under 1 s', 'about 3 s', '']);
  });
});
