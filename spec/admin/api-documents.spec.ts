import { Ajv2020 } from 'ajv/dist/2020.js';
import { expect } from 'chai';
import { apiDocuments, describeActions } from '../../main/admin/api-documents.ts';
import project from '../../package.json' with { type: 'json' };
import { defaultSymbols } from '../../workers/shared/symbols.ts';
import type { HandlersManifest } from '../../workers/tasks/messages.ts';
import { asyncApi, openApi } from '../support/contract.ts';
import { lint } from '../support/lint-document.ts';

const tree = {
  type: 'object',
  required: ['name'],
  properties: { name: { type: 'string' }, children: { type: 'array', items: { $ref: '#' } } },
};
const actions: HandlersManifest = new Map([
  ['plant', { schema: tree }],
  ['free', {}],
]);

/** Returns a function that says whether the document allows a body of `POST /tasks`. */
function validator(rejectUnknown: boolean, manifest = actions): (body: object) => boolean {
  const { components } = describeActions(openApi, { actions: manifest, rejectUnknown });
  const ajv = new Ajv2020({ strict: false, validateFormats: false });
  return ajv.compile({ $ref: '#/components/schemas/Submission', components });
}

describe('the API documents', () => {
  it('have the version of the project, the content of the files, and the symbols and actions of the process', async () => {
    const documents = apiDocuments({ actions: new Map(), rejectUnknown: false }, defaultSymbols);
    const served = { openApi: JSON.parse(await documents.openApi()), asyncApi: JSON.parse(await documents.asyncApi()) };
    expect(served).to.deep.equal({ openApi, asyncApi });
    const { version } = project;
    for (const { info } of Object.values(served)) expect(info).to.include({ version });

    const actions = new Map([['mail', { schema: { required: ['to'] } }]]);
    const own = apiDocuments({ actions, rejectUnknown: true }, [{ symbol: 'SOL-USD', price: 1, decimals: 2 }]);
    const { components } = JSON.parse(await own.openApi());
    expect(components.schemas.Data1_mail).to.deep.equal({ required: ['to'] });
    expect(await own.asyncApi())
      .to.include('SOL-USD')
      .and.not.include('BTC-USD');
  });
});

describe('the OpenAPI document with a handlers module', () => {
  it('allows the data that the schemas of the actions allow, and unknown actions unless they are rejected', () => {
    const [allows, allowsKnown] = [validator(false), validator(true)];
    const good = { name: 'oak', children: [{ name: 'leaf' }] };
    for (const [body, expected] of [
      [{ action: 'plant', data: good }, true],
      [{ action: 'plant' }, false],
      [{ action: 'plant', data: { name: 1 } }, false],
      [{ action: 'plant', data: { name: 'oak', children: [{}] } }, false],
      [{ action: 'free' }, true],
      [{ action: 'free', data: [] }, false],
      [{ action: 'sum' }, true],
      [{ action: 'uppercase' }, true],
      [{}, false],
    ] as [object, boolean][]) {
      expect([allows(body), allowsKnown(body)], JSON.stringify(body)).to.deep.equal([expected, expected]);
    }
    const other = { action: 'other', data: { name: 1 } };
    expect([allows(other), allowsKnown(other)]).to.deep.equal([true, false]);
  });

  it('resolves the references of a schema with an $id', () => {
    const $id = 'https://example.com/tree';
    for (const $ref of ['#', $id, `${$id}#`, `${$id}#/$defs/tree`, '#/$defs/tree']) {
      const children = { type: 'array', items: { $ref } };
      const schema = { $id, ...tree, properties: { ...tree.properties, children }, $defs: { tree } };
      const allows = validator(false, new Map([['plant', { schema }]]));
      expect(allows({ action: 'plant', data: { name: 'oak', children: [{ name: 'leaf' }] } }), $ref).to.equal(true);
      expect(allows({ action: 'plant', data: { name: 'oak', children: [{}] } }), $ref).to.equal(false);
    }
  });

  it('names all actions, also those without a schema', () => {
    expect(describeActions(openApi, { actions: new Map(), rejectUnknown: false })).to.equal(openApi);
    const others = ', or any other string, which outputs `processed`';
    for (const [manifest, rejectUnknown, expected] of [
      [new Map(), false, `\`uppercase\`, \`sum\`${others}`],
      [new Map([['free', {}]]), false, `\`uppercase\`, \`sum\`, \`free\`${others}`],
      [actions, false, `\`uppercase\`, \`sum\`, \`plant\`, \`free\`${others}`],
      [new Map(), true, '`uppercase`, `sum`'],
      [actions, true, '`uppercase`, `sum`, `plant`, `free`'],
    ] as const) {
      const { Submission } = describeActions(openApi, { actions: manifest, rejectUnknown }).components.schemas;
      expect(Submission.properties.action.description).to.equal(expected);
    }
  });

  it('passes the linter', async () => {
    const identified = new Map([...actions, ['plant', { schema: { $id: 'Tree', ...tree } }]]);
    const document = describeActions(openApi, { actions: identified, rejectUnknown: false });
    expect(await lint('openapi', document)).to.deep.equal([]);
  });
});
