import { expect } from 'chai';
import fc from 'fast-check';
import { compileSchema } from '../../../workers/submissions/data-schemas.ts';
import { dataFields, fieldAt } from '../../../www/tasks/data-fields.ts';
import { dataTemplate } from '../../../www/tasks/data-template.ts';
import { locate } from '../../../www/tasks/json-location.ts';

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
    expect(JSON.stringify(dataTemplate(resize))).to.equal(
      '{"width":1,"url":"https://example.org/a.png","quality":80,"format":"png"}',
    );
    expect(compileSchema(resize)(dataTemplate(resize))).to.equal(undefined);
  });

  it('has a value of each type, within its bounds', () => {
    const properties = {
      text: { type: 'string' },
      number: { type: 'number', maximum: -5 },
      flag: { type: 'boolean' },
      nothing: { type: 'null' },
      either: { type: ['integer', 'string'], minimum: 3 },
      empty: { type: 'array', items: { type: 'number' } },
      filled: { type: 'array', items: { type: 'number' }, minItems: 1 },
      nested: { required: ['a'], properties: { a: { const: 5 } } },
      merged: { allOf: [{ type: 'object', required: ['b'] }, { properties: { b: { type: 'boolean' } } }] },
      branch: { anyOf: [{ type: 'object', required: ['c'], properties: { c: { enum: [7] } } }, { type: 'null' }] },
    };
    const schema = { type: 'object', required: Object.keys(properties), properties };
    expect(dataTemplate(schema)).to.deep.equal({
      text: '',
      number: -5,
      flag: false,
      nothing: null,
      either: 3,
      empty: [],
      filled: [0],
      nested: { a: 5 },
      merged: { b: false },
      branch: { c: 7 },
    });
    expect(compileSchema(schema)(dataTemplate(schema))).to.equal(undefined);
  });

  it('is an object whatever the schema is, even if it contains itself', () => {
    const endless = { type: 'object', required: ['self'], properties: { self: { $ref: '#' } } };
    expect(dataTemplate(endless)).to.have.nested.property('self.self');
    expect(dataFields(endless)).to.have.length.within(1, 100);
    const loop = { $ref: '#/$defs/a', $defs: { a: { $ref: '#/$defs/a' } } };
    for (const schema of [
      {},
      loop,
      { type: 'array' },
      { examples: [5] },
      { properties: null, required: 5, allOf: 1 },
    ]) {
      expect(dataTemplate(schema)).to.deep.equal({});
      expect(dataFields(schema)).to.deep.equal([]);
    }
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

  it('are found by the path of a wrong value', () => {
    const found = (path: string) => fieldAt(dataFields(resize), path)?.name;
    expect(['/url', '/crops/3/x', '/crops/3/y', '/crops', '/url/x', '/other', ''].map(found)).to.deep.equal([
      'url',
      'crops[].x',
      'crops',
      'crops',
      'url',
      undefined,
      undefined,
    ]);
    const odd = dataFields({ properties: { 'a/b~c': { properties: { '': {} } } } });
    expect(fieldAt(odd, '/a~1b~0c/')?.path).to.equal('/a~1b~0c/');
  });
});

describe('the place of a value in JSON text', () => {
  const at = (text: string, pointer: string) => {
    const { start, end } = locate(text, pointer);
    return text.slice(start, end);
  };

  it('is that of its parent if it is missing', () => {
    const text = ' {"a": [1, {"b,}": "x\\"]"}], "a~/": null, "d": 1, "d": 22 } ';
    expect(at(text, '/a/1/b,}')).to.equal('"x\\"]"');
    expect(at(text, '/a/1')).to.equal('{"b,}": "x\\"]"}');
    expect(at(text, '/a~0~1')).to.equal('null');
    expect(at(text, '/d')).to.equal('22');
    expect(at(text, '/a/2')).to.equal('[1, {"b,}": "x\\"]"}]');
    expect(at(text, '/none/x')).to.equal(text.trim());
    expect(locate('', '/a')).to.deep.equal({ start: 0, end: 0 });
  });

  it('is that of exactly this value, for any JSON', () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 4 }), fc.constantFrom(undefined, 2), (value, indentation) => {
        const text = JSON.stringify(value, null, indentation);
        visit(value, '', (each, pointer) =>
          expect(JSON.parse(at(text, pointer))).to.deep.equal(JSON.parse(JSON.stringify(each))),
        );
      }),
    );
  });
});

/** Calls `see` with a JSON value and each value in it, with their JSON Pointers. */
function visit(value: unknown, pointer: string, see: (value: unknown, pointer: string) => void): void {
  see(value, pointer);
  if (typeof value !== 'object' || value === null) return;
  for (const [key, each] of Object.entries(value))
    visit(each, `${pointer}/${key.replaceAll('~', '~0').replaceAll('/', '~1')}`, see);
}
