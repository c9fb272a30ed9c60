import { expect } from 'chai';
import fc from 'fast-check';
import { MemoryTokenStore, type MemoryTokenStoreOptions } from '../../main/ticker/token-store.ts';
import { afterTest } from '../support/cleanup.ts';
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
