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
});
