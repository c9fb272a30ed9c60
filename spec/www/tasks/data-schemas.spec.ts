import { expect } from 'chai';
import fc from 'fast-check';
import { compileSchema } from '../../../workers/submissions/data-schemas.ts';
import { dataFields, dataTemplate, fieldAt } from '../../../www/tasks/data-schema.ts';
import { locate } from '../../../www/tasks/json-text.ts';

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
    const values: [schema: object, value: unknown][] = [
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
    ];
    for (const [of, value] of values) {
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
    for (const schema of [{}, loop, { type: 'array' }, { examples: [5] }, wrong]) {
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
