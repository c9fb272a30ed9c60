import { expect } from 'chai';
import { describePrices } from '../../../main/admin/api-documents.ts';
import { MAX_SYMBOLS } from '../../../workers/shared/symbols.ts';
import { asyncApi, openApi } from '../../support/contract.ts';
import { lint } from '../../support/lint-document.ts';

describe('the API documents', () => {
  it('pass the linter, also with the largest number of symbols', async () => {
    expect(await lint('openapi', openApi)).to.deep.equal([]);
    expect(await lint('asyncapi', asyncApi)).to.deep.equal([]);
    const symbols = Array.from({ length: MAX_SYMBOLS }, (_, index) => ({ symbol: `S${index}`, price: 1, decimals: 8 }));
    expect(await lint('asyncapi', describePrices(asyncApi, symbols))).to.deep.equal([]);
  });

  it('fail the linter with an unresolved reference or an invalid address', async () => {
    const paths = { ...openApi.paths, '/queue': { get: { responses: { 200: { $ref: '#/components/none' } } } } };
    expect((await lint('openapi', { ...openApi, paths })).join()).to.match(/resolve \$ref/);
    expect((await lint('asyncapi', { ...asyncApi, channels: { ticker: { address: 1 } } })).join()).to.match(/address/);
  });
});
