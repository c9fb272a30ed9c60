import { expect } from 'chai';
import { ServiceError } from '../../../www/client/errors.ts';
import type { ActionList } from '../../../www/client/task-client.ts';
import { type Draft, draftOf, formOf, parseForm } from '../../../www/tasks/draft.ts';
import { FieldError, objectOf, parseData, placeError, textOf } from '../../../www/tasks/fields.ts';
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

describe('the fields of a form on the task board', () => {
  it('are read from an object and back, without those that are empty', () => {
    const names = ['name', 'data', 'rate/count', 'per_key/rate/seconds', 'concurrency'];
    const parsers = { data: parseData, concurrency: Number };
    const fields = names.map((name) => ({ name, label: name, parse: parsers[name as 'data'] ?? String }));
    const object = { name: 'x', data: { a: [1] }, per_key: { rate: { seconds: '0.5' } }, concurrency: 5 };
    const texts = Object.fromEntries(fields.map((field) => [field.name, textOf(field, object)]));
    expect(texts).to.include({ 'rate/count': '', 'per_key/rate/seconds': '0.5', concurrency: '5' });
    expect(objectOf(fields, texts)).to.deep.equal(object);
    expect(objectOf(fields, { concurrency: ' ' })).to.deep.equal({});
    expect(JSON.stringify(objectOf(fields, { concurrency: 'many' }))).to.equal('{"concurrency":null}');
  });

  it('place an error at the field that it names, and one of the data at the field of the data', () => {
    const names = ['cron', 'action', 'text', 'rate/count'].map((name) => ({ name, label: name }));
    const fields = [...names, { name: 'json', label: 'Data', parse: parseData }];
    for (const [error, path, detail, field, message] of [
      ['invalid schedule', '/cron', 'has no time', 'cron', 'has no time'],
      ['invalid limits', '/rate/count', 'is wrong', 'rate/count', 'is wrong'],
      ['invalid limits', '', 'needs a field', undefined, 'invalid limits: it needs a field'],
      ['invalid data', '/text', 'is missing', 'json', 'invalid data: /text is missing'],
      ['action required', undefined, undefined, 'action', 'action required'],
      ['too many schedules', undefined, undefined, undefined, 'too many schedules'],
    ] as const)
      expect(placeError(new ServiceError(400, { error, path, detail }), fields)).to.include({ field, message });
    expect(placeError(new FieldError('text', 'no JSON'), fields)).to.deep.equal({ field: 'text', message: 'no JSON' });
  });
});
