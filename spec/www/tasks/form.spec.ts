import { expect } from 'chai';
import fc from 'fast-check';
import { compileSchema } from '../../../workers/submissions/data-schemas.ts';
import { ServiceError } from '../../../www/client/errors.ts';
import type { ActionList } from '../../../www/client/task-client.ts';
import { dataFields, dataTemplate, fieldAt } from '../../../www/tasks/data-schema.ts';
import { type Draft, draftOf, formOf, parseForm } from '../../../www/tasks/draft.ts';
import { FieldError, objectOf, parseData, placeError, textOf } from '../../../www/tasks/fields.ts';
import { indent, locate, readPayload } from '../../../www/tasks/json-text.ts';

const EMPTY: Draft = { kind: 'uppercase', text: '', numbers: '', action: '', data: {} };

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
    for (const offered of [[], [{ name: 'sum', schema: {} }, { name: 'resize' }]])
      for (const task of [
        { action: 'uppercase', data: { text: 'a' } },
        { action: 'uppercase', data: { text: 5 } },
        { action: 'sum', data: { numbers: [1, 2] } },
        { action: 'resize', data: { width: 5 } },
        { action: 'unknown', data: {} },
      ])
        expect(parseForm(form(draftOf(task, form({}, offered, 'reject')), offered, 'reject'))).to.deep.equal(task);
  });
});

describe('a row on the board', () => {
  it('is shown whatever its payload holds', () => {
    expect(readPayload('{"action":"x","data":{"a":1},"id":"1"}')).to.deep.equal({ action: 'x', data: { a: 1 } });
    for (const payload of ['', 'null', '{']) expect(readPayload(payload).action).to.equal('unreadable');
    expect([indent('{"a":1}'), indent('nonsense')]).to.deep.equal(['{\n  "a": 1\n}', 'nonsense']);
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

const resize = {
  type: 'object',
  required: ['url', 'width'],
  properties: {
    quality: { type: 'integer', minimum: 1, maximum: 100, default: 80, title: 'Quality', description: 'of the JPEG' },
    note: { type: 'string' },
    width: { $ref: '#/$defs/pixels' },
    url: { type: 'string', examples: ['https://example.org/a.png'] },
    crops: { type: 'array', items: { type: 'object', required: ['x'], properties: { x: { $ref: '#/$defs/pixels' } } } },
    format: { enum: ['png', 'webp'] },
  },
  $defs: { pixels: { type: 'integer', exclusiveMinimum: 0 } },
};

describe('the template of data', () => {
  it('has the required fields first, then the optional ones with a default, an example or a constant', () => {
    const template = '{"width":1,"url":"https://example.org/a.png","quality":80,"format":"png"}';
    expect(JSON.stringify(dataTemplate(resize))).to.equal(template);
    expect(compileSchema(resize)(dataTemplate(resize))).to.equal(undefined);
  });

  it('has a valid value of each type', () => {
    for (const [of, value] of [
      [{ type: 'string' }, ''],
      [{ type: 'number', maximum: -5 }, -5],
      [{ type: 'boolean' }, false],
      [{ type: 'null' }, null],
      [{ type: ['integer', 'string'], minimum: 3 }, 3],
      [{ type: 'array', items: { type: 'number' } }, []],
      [{ type: 'array', items: { type: 'number' }, minItems: 1 }, [0]],
      [{ required: ['a'], properties: { a: { const: 5 } } }, { a: 5 }],
      [{ allOf: [{ type: 'object', required: ['b'] }, { properties: { b: { type: 'boolean' } } }] }, { b: false }],
      [{ anyOf: [{ type: 'object', required: ['c'], properties: { c: { enum: [7] } } }, { type: 'null' }] }, { c: 7 }],
    ] as const) {
      const schema = { type: 'object', required: ['x'], properties: { x: of } };
      expect(dataTemplate(schema)).to.deep.equal({ x: value });
      expect(compileSchema(schema)(dataTemplate(schema))).to.equal(undefined);
    }
  });

  it('is an object for any schema, also for a recursive one', () => {
    const endless = { type: 'object', required: ['self'], properties: { self: { $ref: '#' } } };
    expect(dataTemplate(endless)).to.have.nested.property('self.self');
    expect(dataFields(endless)).to.have.length.within(1, 100);
    const loop = { $ref: '#/$defs/a', $defs: { a: { $ref: '#/$defs/a' } } };
    const wrong = { properties: null, required: 5, allOf: 1 };
    for (const schema of [{}, loop, { type: 'array' }, { examples: [5] }, wrong])
      expect([dataTemplate(schema), dataFields(schema)]).to.deep.equal([{}, []]);
    expect(dataTemplate({ examples: [{ a: 1 }] })).to.deep.equal({ a: 1 });
  });
});

describe('the fields of data', () => {
  it('are described, the required ones first', () => {
    expect(dataFields(resize).map(({ name, required, kind, about }) => [name, required, kind, about])).to.deep.equal([
      ['width', true, 'integer, above 0', ''],
      ['url', true, 'string', ''],
      ['quality', false, 'integer, 1 to 100', 'Quality: of the JPEG'],
      ['note', false, 'string', ''],
      ['crops', false, 'array of object', ''],
      ['crops[].x', true, 'integer, above 0', ''],
      ['format', false, 'string, "png" or "webp"', ''],
    ]);
  });

  it('are found by the path of an invalid value', () => {
    const found = (path: string) => fieldAt(dataFields(resize), path)?.name;
    const paths = ['/url', '/crops/3/x', '/crops/3/y', '/crops', '/url/x', '/other', ''];
    expect(paths.map(found)).to.deep.equal(['url', 'crops[].x', 'crops', 'crops', 'url', undefined, undefined]);
    const odd = dataFields({ properties: { 'a/b~c': { properties: { '': {} } } } });
    expect(fieldAt(odd, '/a~1b~0c/')?.keys).to.deep.equal(['a/b~c', '']);
  });
});

describe('the place of a value in JSON text', () => {
  const at = (text: string, pointer: string) => {
    const { start, end } = locate(text, pointer);
    return text.slice(start, end);
  };

  it('is that of its parent if the value is missing', () => {
    const text = ' {"a": [1, {"b,}": "x\\"]"}], "a~/": null, "d": 1, "d": 22 } ';
    for (const [pointer, value] of [
      ['/a/1/b,}', '"x\\"]"'],
      ['/a/1', '{"b,}": "x\\"]"}'],
      ['/a~0~1', 'null'],
      ['/d', '22'],
      ['/a/2', '[1, {"b,}": "x\\"]"}]'],
      ['/none/x', text.trim()],
    ] as const)
      expect(at(text, pointer)).to.equal(value);
    expect(locate('', '/a')).to.deep.equal({ start: 0, end: 0 });
  });

  it('is found for every value in any JSON', () => {
    const property = fc.property(fc.jsonValue({ maxDepth: 4 }), fc.constantFrom(undefined, 2), (value, indentation) => {
      const text = JSON.stringify(value, null, indentation);
      const expectFound = (each: unknown, pointer: string) => {
        expect(JSON.parse(at(text, pointer))).to.deep.equal(each);
        if (typeof each !== 'object' || each === null) return;
        for (const [key, inner] of Object.entries(each))
          expectFound(inner, `${pointer}/${key.replaceAll('~', '~0').replaceAll('/', '~1')}`);
      };
      expectFound(JSON.parse(text), '');
    });
    fc.assert(property);
  });
});
