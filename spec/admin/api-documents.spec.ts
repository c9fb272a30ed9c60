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
  it('are those of the sources, with the version of the project', async () => {
    const documents = apiDocuments({ actions: new Map(), rejectUnknown: false }, defaultSymbols);
    const served = { openApi: JSON.parse(await documents.openApi()), asyncApi: JSON.parse(await documents.asyncApi()) };
    expect(served).to.deep.equal({ openApi, asyncApi });
    expect([served.openApi.info.version, served.asyncApi.info.version]).to.deep.equal([
      project.version,
      project.version,
    ]);
  });

  it('have the symbols and actions of the process', async () => {
    const actions = new Map([['mail', { schema: { required: ['to'] } }]]);
    const symbols = [{ symbol: 'SOL-USD', price: 1, decimals: 2 }];
    const documents = apiDocuments({ actions, rejectUnknown: true }, symbols);
    const { components } = JSON.parse(await documents.openApi());
    expect(components.schemas.Data1_mail).to.deep.equal({ required: ['to'] });
    expect(await documents.asyncApi())
      .to.include('SOL-USD')
      .and.not.include('BTC-USD');
  });
});

describe('the OpenAPI document with a handlers module', () => {
  it('describes the data of an action that has a schema', () => {
    const allows = validator(false);
    const good = { name: 'oak', children: [{ name: 'leaf' }] };
    for (const body of [{ action: 'plant', data: good }, { action: 'free' }, { action: 'other', data: { name: 1 } }]) {
      expect(allows(body), JSON.stringify(body)).to.equal(true);
    }
    for (const body of [
      { action: 'plant' },
      { action: 'plant', data: { name: 1 } },
      { action: 'plant', data: { name: 'oak', children: [{}] } },
      { action: 'free', data: [] },
      {},
    ]) {
      expect(allows(body), JSON.stringify(body)).to.equal(false);
    }
  });

  it('allows no unknown action if they are refused', () => {
    const allows = validator(true);
    for (const action of ['free', 'sum', 'uppercase']) expect(allows({ action })).to.equal(true);
    expect(allows({ action: 'other' })).to.equal(false);
  });

  it('resolves the references of a schema with an identifier of its own', () => {
    const $id = 'https://example.com/tree';
    for (const $ref of ['#', $id, `${$id}#`, `${$id}#/$defs/tree`, '#/$defs/tree']) {
      const children = { type: 'array', items: { $ref } };
      const schema = { $id, ...tree, properties: { ...tree.properties, children }, $defs: { tree } };
      const allows = validator(false, new Map([['plant', { schema }]]));
      expect(allows({ action: 'plant', data: { name: 'oak', children: [{ name: 'leaf' }] } }), $ref).to.equal(true);
      expect(allows({ action: 'plant', data: { name: 'oak', children: [{}] } }), $ref).to.equal(false);
    }
  });

  it('names all actions, those without a schema too', () => {
    const description = (manifest: HandlersManifest, rejectUnknown: boolean) => {
      const { Submission } = describeActions(openApi, { actions: manifest, rejectUnknown }).components.schemas;
      return Submission.properties.action.description;
    };
    const others = ', or any other string, which outputs `processed`';
    expect(description(new Map(), false)).to.equal(`\`uppercase\`, \`sum\`${others}`);
    expect(description(new Map([['free', {}]]), false)).to.equal(`\`uppercase\`, \`sum\`, \`free\`${others}`);
    expect(description(actions, false)).to.equal(`\`uppercase\`, \`sum\`, \`plant\`, \`free\`${others}`);
    expect(description(actions, true)).to.equal('`uppercase`, `sum`, `plant`, `free`');
  });

  it('is the same as before without a handlers module', () => {
    expect(describeActions(openApi, { actions: new Map(), rejectUnknown: false })).to.equal(openApi);
  });

  it('passes the linter', async () => {
    const manifests: HandlersManifest[] = [
      actions,
      new Map([['free', {}]]),
      new Map([['plant', { schema: { $id: 'Tree', ...tree } }]]),
    ];
    for (const manifest of manifests) {
      for (const rejectUnknown of [true, false]) {
        expect(await lint('openapi', describeActions(openApi, { actions: manifest, rejectUnknown }))).to.deep.equal([]);
      }
    }
  });
});
