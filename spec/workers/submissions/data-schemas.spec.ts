import { expect } from 'chai';
import Type from 'typebox';
import { compileSchema, submissionCheck } from '../../../workers/submissions/data-schemas.ts';
import { DEFERRED } from '../../../workers/submissions/parse-submission.ts';

describe('a compiled schema', () => {
  const schema = {
    type: 'object',
    required: ['numbers', 'a/b~c'],
    properties: {
      numbers: { type: 'array', items: { type: 'number' } },
      'a/b~c': { $ref: '#/$defs/text' },
      mail: { type: 'string', format: 'email' },
    },
    additionalProperties: false,
    $defs: { text: { type: 'string', maxLength: 3 } },
  };

  it('returns the path of the first wrong field, and what is wrong', () => {
    const check = compileSchema(schema);
    expect(check({ numbers: [1], 'a/b~c': 'abc' })).to.equal(undefined);
    for (const [data, path, detail] of [
      [{ numbers: [1, '2'], 'a/b~c': '' }, '/numbers/1', 'must be number'],
      [{ numbers: [] }, '/a~1b~0c', 'must be present'],
      [{ numbers: [], 'a/b~c': '', other: 1 }, '/other', 'must not be present'],
      [{ numbers: [], 'a/b~c': 'abcd' }, '/a~1b~0c', 'must not have more than 3 characters'],
      [{ numbers: [], 'a/b~c': '', mail: 'x' }, '/mail', 'must match format "email"'],
      [[], '', 'must be object'],
    ] as const)
      expect(check(data)).to.deep.equal({ path, detail });
  });

  it('may be of TypeBox, recursive, and of an older dialect', () => {
    const typeBox = Type.Object({ a: Type.Optional(Type.Integer({ minimum: 1 })) });
    const ofTypeBox = compileSchema(JSON.parse(JSON.stringify(typeBox)));
    expect([ofTypeBox({}), ofTypeBox({ a: 1 })]).to.deep.equal([undefined, undefined]);
    expect(ofTypeBox({ a: 0 })).to.deep.equal({ path: '/a', detail: 'must be >= 1' });
    const tree = compileSchema({ type: 'object', properties: { next: { $ref: '#' } }, additionalProperties: false });
    expect(tree({ next: { next: {} } })).to.equal(undefined);
    expect(tree({ next: { next: { x: 1 } } })).to.deep.equal({ path: '/next/next/x', detail: 'must not be present' });
    const old = compileSchema({ $schema: 'http://json-schema.org/draft-07/schema#', definitions: {}, type: 'object' });
    expect(old({})).to.equal(undefined);
  });

  it('may have a property named $ref in its constants, enumerations, defaults and examples', () => {
    const pointer = { $ref: '#/nowhere' };
    const properties = { pointer: { const: pointer }, either: { enum: [pointer, 1] } };
    const annotated = compileSchema({ type: 'object', default: { pointer }, examples: [{ pointer }], properties });
    expect(annotated({ pointer, either: pointer })).to.equal(undefined);
    expect(annotated({ pointer: {} })?.path).to.equal('/pointer');
  });

  it('is refused if it refers only to itself, or to a part that is not there, even below a property with the name of a keyword', () => {
    for (const name of ['const', 'enum', 'default', 'examples', '$ref'])
      for (const map of ['properties', 'patternProperties', '$defs', 'definitions', 'dependentSchemas']) {
        const dangling = { [map]: { [name]: { $ref: '#/nowhere' } } };
        expect(() => compileSchema(dangling), `${map} ${name}`).to.throw('$ref "#/nowhere" leads nowhere');
      }
    expect(() => compileSchema({ anyOf: [{ items: { $ref: '#/nowhere' } }] })).to.throw('leads nowhere');
    expect(() => compileSchema({ $ref: '#' })).to.throw('Maximum call stack size exceeded');
  });

  it('needs a time limit if it has, anywhere, a keyword whose check may take very long', () => {
    const isLimited = (b: object) => {
      const actions = new Map([['a', { schema: { properties: { b } } }]]);
      return submissionCheck({ actions, rejectUnknown: false }, () => DEFERRED)('a', {}) === DEFERRED;
    };
    const references = { $ref: '#', $dynamicRef: '#', $recursiveRef: '#' };
    for (const costly of Object.entries({ ...references, pattern: 'a', patternProperties: {}, uniqueItems: true }))
      expect(isLimited(Object.fromEntries([costly])), costly[0]).to.equal(true);
    expect(isLimited({ type: 'string' })).to.equal(false);
  });

  it('returns the path of an array with duplicate items', () => {
    const check = compileSchema({
      properties: {
        list: { type: 'array', items: { type: ['number', 'object'] }, uniqueItems: true },
        either: { anyOf: [{ type: 'array', uniqueItems: true }, { type: 'number' }] },
        any: { uniqueItems: false },
        other: { const: { uniqueItems: true } },
        uniqueItems: true,
      },
    });
    const detail = 'must not have duplicate items';
    const unique = { list: [1, {}, 2], either: [1], any: [1, 1], other: { uniqueItems: true }, uniqueItems: [1, 1] };
    expect(check(unique)).to.equal(undefined);
    expect(check({ list: [{ a: 1, b: 2 }, 1, { b: 2, a: 1 }] })).to.deep.equal({ path: '/list', detail });
    expect(check({ list: ['1', '1'] })).to.deep.equal({ path: '/list/0', detail: 'must be either number or object' });
    expect(check({ either: [1, 1] })).to.deep.equal({ path: '/either', detail });
    expect(check({ other: {} })?.path).to.equal('/other');
  });

  it('takes CPU time that grows no faster than the number of duplicate items', () => {
    const check = compileSchema({ properties: { list: { type: 'array', uniqueItems: true } } });
    const cpuMicroseconds = (lists: number, length: number) => {
      const before = process.threadCpuUsage();
      for (let each = 0; each < lists; each++) expect(check({ list: Array(length).fill(0) })?.path).to.equal('/list');
      const { user, system } = process.threadCpuUsage(before);
      return user + system;
    };
    cpuMicroseconds(1, 1000);
    // If the time were quadratic, the one long list would take 64 times as much as the short ones together.
    expect(cpuMicroseconds(1, 128_000) / cpuMicroseconds(64, 2000)).to.be.below(8);
  });
});
