import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { keepTokens, MemoryTokenStore, takeTokens } from '../../main/ticker/token-store.ts';
import { afterTest, temporaryFolder } from '../support/cleanup.ts';
import { captureLog } from '../support/log.ts';
import { itIsATokenStore } from './token-store-conformance.ts';

describe('the token store in memory', () => {
  itIsATokenStore(async (options) => {
    const store = new MemoryTokenStore(options);
    afterTest(() => store.close());
    return store;
  });
});

describe('the file with the tokens of the last run', () => {
  it('has no tokens if it is damaged, and is deleted; it is not written in the place of a folder; both are logged', async () => {
    const { log, lines } = captureLog();
    const file = join(await temporaryFolder(), 'tokens.json');
    for (const content of ['{"records": [{"id"', '{}', '"text"', '{"key": 5, "records": []}']) {
      writeFileSync(file, content);
      expect(takeTokens(file, log), content).to.deep.equal({ records: [] });
      expect(lines.pop()?.msg).to.equal('the tokens of the last run cannot be used: users must sign in again');
      expect(existsSync(file)).to.equal(false);
    }
    expect([takeTokens(file, log), lines]).to.deep.equal([{ records: [] }, []]);
    mkdirSync(file);
    keepTokens(file, { records: [{ id: 'a', keyId: 'k', expiresAt: 1 }] }, log);
    const message = 'the tokens cannot be kept: users must sign in again after the next start';
    expect(lines.map(({ msg }) => msg)).to.deep.equal([message]);
  });
});
