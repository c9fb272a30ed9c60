import { expect } from 'chai';
import { describePrices } from '../../../main/admin/api-documents.ts';
import { MAX_SYMBOLS } from '../../../workers/shared/symbols.ts';
import { asyncApi, openApi } from '../../support/contract.ts';
import { lint } from '../../support/lint-document.ts';

describe('The linter', () => {
  it('has nothing to say about the OpenAPI document', async () => {
    expect(await lint('openapi', openApi)).to.deep.equal([]);
  });

  it('has nothing to say about the AsyncAPI document', async () => {
    expect(await lint('asyncapi', asyncApi)).to.deep.equal([]);
    const symbols = Array.from({ length: MAX_SYMBOLS }, (_, index) => ({ symbol: `S${index}`, price: 1, decimals: 8 }));
    expect(await lint('asyncapi', describePrices(asyncApi, symbols))).to.deep.equal([]);
  });

  it('would say it', async () => {
    const paths = { ...openApi.paths, '/queue': { get: { responses: { 200: { $ref: '#/components/none' } } } } };
    expect((await lint('openapi', { ...openApi, paths })).join()).to.match(/resolve \$ref/);
    expect((await lint('asyncapi', { ...asyncApi, channels: { ticker: { address: 1 } } })).join()).to.match(/address/);
  });
});
