import { mock } from 'node:test';
import { expect } from 'chai';
import fc from 'fast-check';
import { MemoryTokenStore } from '../../main/ticker/memory-token-store.ts';
import { TokenStoreFull, TokenStoreUnavailable } from '../../main/ticker/token-store.ts';
import { afterTest } from '../support/cleanup.ts';
import { itIsATokenStore } from './token-store-conformance.ts';

const START = 1_700_000_000_000;

function create(options: ConstructorParameters<typeof MemoryTokenStore>[0] = {}): MemoryTokenStore {
  const store = new MemoryTokenStore(options);
  afterTest(() => store.close());
  return store;
}

describe('the token store in memory', () => {
  itIsATokenStore(async (options) => create(options));
});

describe('the tokens of each API key', () => {
  it('are the same newest ones, in whatever sequence they are added', () => {
    const tokens = fc.uniqueArray(
      fc.record({ id: fc.string(), keyId: fc.constantFrom('a', 'b'), order: fc.integer({ min: 1, max: 9 }) }),
      { selector: ({ id }) => id, maxLength: 30 },
    );
    const sequences = tokens.chain((all) =>
      fc.tuple(fc.constant(all), fc.shuffledSubarray(all, { minLength: all.length })),
    );
    const kept = (all: { id: string; keyId: string; order: number }[], maxTokensPerKey: number) => {
      const store = new MemoryTokenStore({ maxTokensPerKey });
      const removed = new Set<string>();
      store.onRemove = (id) => removed.add(id);
      const evicted = all.map(({ order, ...token }) =>
        store.insert({ ...token, expiresAt: Date.now() + 60_000 }, order),
      );
      expect(removed).to.deep.equal(new Set(evicted.filter((id) => id !== undefined)));
      const ids = new Set(store.ids());
      store.close();
      return ids;
    };
    fc.assert(
      fc.property(sequences, fc.integer({ min: 1, max: 5 }), ([all, shuffled], max) => {
        const ids = kept(all, max);
        expect(kept(shuffled, max)).to.deep.equal(ids);
        for (const keyId of ['a', 'b']) {
          const ofKey = all.filter((token) => token.keyId === keyId);
          expect(ofKey.filter(({ id }) => ids.has(id))).to.have.lengthOf(Math.min(max, ofKey.length));
        }
      }),
    );
  });

  it('are removed when revoked, and their key with the last of them', () => {
    const store = create({ maxTokensPerKey: 1 });
    store.put({ id: 'a', keyId: 'k', expiresAt: Date.now() + 60_000 });
    expect([store.isFull('k'), store.nextOrder('k')]).to.deep.equal([true, 2]);
    store.revoke('a');
    store.revoke('a');
    expect([store.isFull('k'), store.nextOrder('k')]).to.deep.equal([false, 1]);
  });
});

describe('the token store in memory, as time goes by', () => {
  beforeEach(() => mock.timers.enable({ apis: ['Date', 'setTimeout'], now: START }));
  afterEach(() => mock.timers.reset());

  it('has what was put into it, until it expires', () => {
    const store = create();
    store.put({ id: 'a', keyId: 'k', expiresAt: START + 1000 });
    expect([store.has('a'), store.has('b')]).to.deep.equal([true, false]);
    mock.timers.tick(999);
    expect(store.has('a')).to.equal(true);
    mock.timers.tick(1);
    expect(store.has('a')).to.equal(false);
  });

  it('takes no more than its bound, and keeps what it has', () => {
    const store = create({ maxTokens: 2 });
    for (const id of ['a', 'b']) store.put({ id, keyId: 'k', expiresAt: START + 1000 });
    expect(() => store.put({ id: 'c', keyId: 'k', expiresAt: START + 1000 })).to.throw(TokenStoreFull, '2 tokens');
    expect(['a', 'b', 'c'].map((id) => store.has(id))).to.deep.equal([true, true, false]);
    expect(store.size).to.equal(2);
  });

  it('removes expired tokens automatically, and reports them', () => {
    const removed: string[] = [];
    const store = create({ maxTokens: 3 });
    store.onRemove = (id) => removed.push(id);
    store.put({ id: 'a', keyId: 'k', expiresAt: START + 1000 });
    store.put({ id: 'b', keyId: 'k', expiresAt: START + 1000 });
    store.put({ id: 'c', keyId: 'k', expiresAt: START + 3000 });
    mock.timers.tick(1000);
    expect(removed).to.deep.equal(['a', 'b']);
    expect(store.size).to.equal(1);
    store.put({ id: 'd', keyId: 'k', expiresAt: START + 4000 });
    mock.timers.tick(2000);
    expect(removed).to.deep.equal(['a', 'b', 'c']);
    mock.timers.tick(1000);
    expect(removed).to.deep.equal(['a', 'b', 'c', 'd']);
    store.put({ id: 'e', keyId: 'k', expiresAt: START + 5000 });
    mock.timers.tick(1000);
    expect(store.size).to.equal(0);
  });

  it('waits longer than a timer can', () => {
    const store = create();
    const lifetime = 2 ** 31 + 5000;
    store.put({ id: 'a', keyId: 'k', expiresAt: START + lifetime });
    mock.timers.tick(2 ** 31 - 1);
    expect(store.has('a')).to.equal(true);
    mock.timers.tick(lifetime - (2 ** 31 - 1));
    expect(store.size).to.equal(0);
  });

  it('holds exactly the tokens that have not expired, whenever they come', () => {
    const gaps = fc.array(fc.nat(2000), { maxLength: 30 });
    fc.assert(
      fc.property(gaps, fc.integer({ min: 1, max: 5000 }), (waits, lifetime) => {
        const removed: string[] = [];
        const store = new MemoryTokenStore();
        store.onRemove = (id) => removed.push(id);
        const issued: { id: string; keyId: string; expiresAt: number }[] = [];
        for (const [index, wait] of waits.entries()) {
          mock.timers.tick(wait);
          const record = { id: String(index), keyId: 'k', expiresAt: Date.now() + lifetime };
          store.put(record);
          issued.push(record);
          const alive = issued.filter(({ expiresAt }) => expiresAt > Date.now());
          expect(issued.filter(({ id }) => store.has(id))).to.deep.equal(alive);
          expect(store.size).to.equal(alive.length);
        }
        mock.timers.tick(lifetime);
        expect(store.size).to.equal(0);
        expect(removed).to.deep.equal(issued.map(({ id }) => id));
        store.close();
      }),
    );
  });

  it('does nothing more once it is closed', () => {
    const removed: string[] = [];
    const store = create();
    store.onRemove = (id) => removed.push(id);
    store.put({ id: 'a', keyId: 'k', expiresAt: START + 1000 });
    store.close();
    expect(store.size).to.equal(0);
    expect(() => store.has('a')).to.throw(TokenStoreUnavailable);
    expect(() => store.put({ id: 'b', keyId: 'k', expiresAt: START + 1000 })).to.throw(TokenStoreUnavailable);
    mock.timers.tick(5000);
    expect(removed).to.deep.equal([]);
    store.close();
  });
});
