import { expect } from 'chai';
import { type TokenStore, TokenStoreFull, TokenStoreUnavailable } from '../../main/ticker/token-store.ts';
import type { Clock } from '../../workers/shared/clock.ts';
import { errorOf } from '../store/stage.ts';
import { ManualClock } from '../support/manual-clock.ts';

/** Defines the conformance specs of a token store. @param open opens an empty store, which is closed after the test */
export function itIsATokenStore(
  open: (options: { maxTokens: number; maxTokensPerKey: number; clock: Clock }) => Promise<TokenStore>,
): void {
  const HOUR_MS = 3_600_000;
  const clock = new ManualClock();
  const create = async (maxTokens = 100, maxTokensPerKey = 100) => {
    const store = await open({ maxTokens, maxTokensPerKey, clock });
    const removed: unknown[] = [];
    store.onRemove = (...of) => removed.push(of);
    const put = async (id: string, { keyId = 'k', lifetimeMs = HOUR_MS } = {}) =>
      store.put({ id, keyId, expiresAt: clock.now() + lifetimeMs });
    return { store, removed, put };
  };

  it('has what was put into it, at once, and nothing else, whatever the identifier', async () => {
    const { store, put } = await create();
    await put('a');
    expect([store.has('a'), await store.find('a'), store.size]).to.deep.equal([true, true, 1]);
    for (const id of ['b', '', ' ', '*', '>', 'a.b', 'ä', '\n', 'x'.repeat(10_000)]) {
      expect([store.has(id), await store.find(id)], id.slice(0, 10)).to.deep.equal([false, false]);
      await store.revoke(id);
    }
  });

  it('removes expired tokens, in whatever order they were put, and revoked ones at once, and reports each once', async () => {
    const { store, removed, put } = await create();
    const lifetimes = { c: 60, e: 120, d: 60, f: 120, a: 1, b: 1 };
    for (const [id, minutes] of Object.entries(lifetimes)) await put(id, { lifetimeMs: minutes * 60_000 });
    for (const id of ['c', 'c', 'unknown']) await store.revoke(id);
    expect([store.has('c'), await store.find('c'), store.size]).to.deep.equal([false, false, 5]);
    clock.advance(59_999);
    expect([store.has('a'), removed]).to.deep.equal([true, [['c', 'token revoked']]]);
    clock.advance(1);
    expect(removed.slice(1)).to.deep.equal(['a', 'b'].map((id) => [id, 'token expired']));
    expect([await store.find('a'), await store.find('d'), store.size]).to.deep.equal([false, true, 3]);
    clock.advance(HOUR_MS);
    expect(removed.slice(3)).to.deep.equal([['d', 'token expired']]);
  });

  it('takes no more than its bound, keeps what it has, and still revokes', async () => {
    const { store, put } = await create(2);
    for (const id of ['a', 'b']) await put(id);
    expect(await errorOf(() => put('c'))).to.be.instanceOf(TokenStoreFull);
    const found = () => Promise.all(['a', 'b', 'c'].map((id) => store.find(id)));
    expect([store.size, store.maxTokens, await found()]).to.deep.equal([2, 2, [true, true, false]]);
    await store.revoke('a');
    expect(await found()).to.deep.equal([false, true, false]);
  });

  it('evicts the oldest token of a key past the bound of that key, also while the store is full, as revoked, and none of another key', async () => {
    const { store, removed, put } = await create(3, 2);
    await put('other', { keyId: 'k2' });
    // In reverse alphabetical order, so that only age can decide.
    for (const id of ['d', 'c', 'b', 'a']) await put(id);
    expect(removed).to.deep.equal(['d', 'c'].map((id) => [id, 'token revoked']));
    const ids = ['other', 'd', 'c', 'b', 'a'];
    expect(ids.filter((id) => store.has(id))).to.deep.equal(['other', 'b', 'a']);
    expect(await Promise.all(ids.map((id) => store.find(id)))).to.deep.equal([true, false, false, true, true]);
    expect(store.size).to.equal(3);
  });

  it('counts neither revoked nor expired tokens towards the bound of a key', async () => {
    const { store, put } = await create(100, 2);
    await put('a', { lifetimeMs: 60_000 });
    await put('b');
    await store.revoke('b');
    await put('c');
    expect([store.has('a'), store.has('c')]).to.deep.equal([true, true]);
    clock.advance(60_000);
    await put('d');
    expect([store.has('c'), store.has('d'), store.size]).to.deep.equal([true, true, 2]);
  });

  it('does nothing more once it is closed', async () => {
    const { store, removed, put } = await create();
    await put('a');
    await store.close();
    expect(store.size).to.equal(0);
    for (const action of [() => put('b'), () => store.has('a'), () => store.find('a'), () => store.revoke('a')])
      expect(await errorOf(action)).to.be.instanceOf(TokenStoreUnavailable);
    expect(removed).to.deep.equal([]);
    await store.close();
  });
}
