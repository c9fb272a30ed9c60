import { expect } from 'chai';
import type { ActionList } from '../../../www/client/task-client.ts';
import { type Draft, draftOf, formOf, parseForm } from '../../../www/tasks/draft.ts';
import { FieldError } from '../../../www/tasks/fields.ts';
import { indent, readPayload } from '../../../www/tasks/json-text.ts';

const EMPTY: Draft = { kind: 'uppercase', text: '', numbers: '', action: '', data: {} };

/** The form of a draft that a service with some actions shows. */
const form = (values: Partial<Draft>, actions: ActionList['actions'] = [], unknown: 'process' | 'reject' = 'process') =>
  formOf({ ...EMPTY, ...values }, { actions, unknown_actions: unknown });

describe('a draft in the form', () => {
  it('becomes the task that it describes', () => {
    const other = { kind: 'other', action: ' x ' } as const;
    for (const [values, action, data] of [
      [{ text: ' a ' }, 'uppercase', { text: ' a ' }],
      [{ kind: 'sum', numbers: ' 1,2;3 \n -4.5e1 ' }, 'sum', { numbers: [1, 2, 3, -45] }],
      [{ kind: 'sum' }, 'sum', { numbers: [] }],
      [{ ...other, data: { '': ' {"a": [1]} ' } }, 'x', { a: [1] }],
      [{ ...other, data: { '': ' ' } }, 'x', {}],
    ] as const)
      expect(parseForm(form(values))).to.deep.equal({ action, data });
    expect(parseForm(form(other, [{ name: 'y' }]))).to.deep.equal({ action: 'y', data: {} });
  });

  it('names its invalid field', () => {
    const texts = ['{', '[]', 'null', '1', '"x"'];
    for (const [values, field] of [
      [{ kind: 'sum', numbers: '1, two' }, 'numbers'],
      [{ kind: 'sum', numbers: '1e999' }, 'numbers'],
      [{ kind: 'other', action: '  ' }, 'action'],
      ...texts.map((json) => [{ kind: 'other', action: 'x', data: { '': json } }, 'json'] as const),
    ] as const)
      expect(() => parseForm(form(values)), JSON.stringify(values))
        .to.throw(FieldError)
        .with.property('field', field);
  });

  it('is filled in from an earlier task, also from one whose action is not offered', () => {
    const actions = [{ name: 'sum', schema: {} }, { name: 'resize' }];
    for (const offered of [[], actions])
      for (const task of [
        { action: 'uppercase', data: { text: 'a' } },
        { action: 'uppercase', data: { text: 5 } },
        { action: 'sum', data: { numbers: [1, 2] } },
        { action: 'resize', data: { width: 5 } },
        { action: 'unknown', data: {} },
      ]) {
        const shown = form(draftOf(task, form({}, offered, 'reject')), offered, 'reject');
        expect(parseForm(shown)).to.deep.equal(task);
      }
  });
});

describe('a row on the board', () => {
  it('is shown whatever its payload holds', () => {
    expect(readPayload('{"action":"x","data":{"a":1},"id":"1"}')).to.deep.equal({ action: 'x', data: { a: 1 } });
    for (const payload of ['', 'null', '{']) expect(readPayload(payload).action).to.equal('unreadable');
    expect(indent('{"a":1}')).to.equal('{\n  "a": 1\n}');
    expect(indent('nonsense')).to.equal('nonsense');
  });
});
