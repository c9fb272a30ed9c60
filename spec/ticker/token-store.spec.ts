import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import fc from 'fast-check';
import {
  keepTokens,
  MemoryTokenStore,
  type MemoryTokenStoreOptions,
  takeTokens,
} from '../../main/ticker/token-store.ts';
import { afterTest, temporaryFolder } from '../support/cleanup.ts';
import { captureLog } from '../support/log.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { itIsATokenStore } from './token-store-conformance.ts';

function create(options: MemoryTokenStoreOptions): MemoryTokenStore {
  const store = new MemoryTokenStore(options);
  afterTest(() => store.close());
  return store;
}

describe('the token store in memory', () => {
  itIsATokenStore(async (options) => create(options));
});

describe('the token store in memory, as time goes by', () => {
  it('removes a token that expires before those that were put earlier, as a cache of another store has them', () => {
    const clock = new ManualClock();
    const store = create({ clock });
    store.put({ id: 'late', keyId: 'k', expiresAt: clock.now() + 3000 });
    store.put({ id: 'early', keyId: 'k', expiresAt: clock.now() + 1000 });
    clock.advance(1000);
    expect(store.records().map(({ id }) => id)).to.deep.equal(['late']);
  });

  it('holds exactly the tokens that have not expired, whenever they come', () => {
    const gaps = fc.array(fc.nat(2000), { maxLength: 30 });
    fc.assert(
      fc.property(gaps, fc.integer({ min: 1, max: 5000 }), (waits, lifetime) => {
        const removed: string[] = [];
        const clock = new ManualClock();
        const store = new MemoryTokenStore({ clock });
        store.onRemove = (id) => removed.push(id);
        const issued: { id: string; keyId: string; expiresAt: number }[] = [];
        for (const [index, wait] of waits.entries()) {
          clock.advance(wait);
          const record = { id: String(index), keyId: 'k', expiresAt: clock.now() + lifetime };
          store.put(record);
          issued.push(record);
          const alive = issued.filter(({ expiresAt }) => expiresAt > clock.now());
          expect(issued.filter(({ id }) => store.has(id))).to.deep.equal(alive);
          const late = issued.filter(({ expiresAt }) => expiresAt > clock.now() - 50);
          expect(store.size).to.be.within(alive.length, late.length);
        }
        clock.advance(lifetime + 50);
        expect(store.size).to.equal(0);
        expect(removed).to.deep.equal(issued.map(({ id }) => id));
        store.close();
      }),
    );
  });
});

describe('the file with the tokens of the last run', () => {
  it('has no tokens if it is damaged, which is logged, and is deleted', async () => {
    const { log, lines } = captureLog();
    const file = join(await temporaryFolder(), 'tokens.json');
    for (const content of ['{"records": [{"id"', '{}', '"text"', '{"key": 5, "records": []}']) {
      writeFileSync(file, content);
      expect(takeTokens(file, log), content).to.deep.equal({ records: [] });
      expect(lines.pop()?.msg).to.equal('the tokens of the last run cannot be used: users must sign in again');
      expect(existsSync(file)).to.equal(false);
    }
    expect(takeTokens(file, log)).to.deep.equal({ records: [] });
    expect(lines).to.deep.equal([]);
  });

  it('is not written in the place of a folder, which is logged', async () => {
    const { log, lines } = captureLog();
    const file = join(await temporaryFolder(), 'tokens.json');
    mkdirSync(file);
    keepTokens(file, { records: [{ id: 'a', keyId: 'k', expiresAt: 1 }] }, log);
    const message = 'the tokens cannot be kept: users must sign in again after the next start';
    expect(lines.map(({ msg }) => msg)).to.deep.equal([message]);
  });
});
