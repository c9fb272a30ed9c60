import { createConfig, lintFromString } from '@redocly/openapi-core';
import { expect } from 'chai';
import { asyncApi } from '../../main/contracts/asyncapi.ts';
import { openApi } from '../../main/contracts/openapi.ts';

/** Runs a standard linter on a document. Returns one line per problem. */
async function lint(name: string, document: object): Promise<string[]> {
  const config = await createConfig({
    extends: ['recommended'],
    // The stream responds with 101.
    rules: { 'operation-2xx-response': 'off' },
  });
  const problems = await lintFromString({ source: JSON.stringify(document), absoluteRef: `/${name}.json`, config });
  return problems.map(({ message, location }) => `${location[0]?.pointer}: ${message}`);
}

describe('The linter', () => {
  it('has nothing to say about the OpenAPI document', async () => {
    expect(await lint('openapi', openApi)).to.deep.equal([]);
  });

  it('has nothing to say about the AsyncAPI document', async () => {
    expect(await lint('asyncapi', asyncApi)).to.deep.equal([]);
  });

  it('would say it', async () => {
    const paths = { ...openApi.paths, '/queue': { get: { responses: { 200: { $ref: '#/components/none' } } } } };
    expect((await lint('openapi', { ...openApi, paths })).join()).to.match(/resolve \$ref/);
    expect((await lint('asyncapi', { ...asyncApi, channels: { ticker: { address: 1 } } })).join()).to.match(/address/);
  });
});
