import { expect } from 'chai';
import { ServiceError } from '../../../www/client/errors.ts';
import { FieldError, objectOf, parseData, placeError, textOf } from '../../../www/tasks/fields.ts';

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
