import { hkdfSync } from 'node:crypto';
import { mock } from 'node:test';
import { expect } from 'chai';
import fc from 'fast-check';
import { LocalProtocol } from 'paseto';
import { DecryptFactory, EncryptFactory, LocalKeyFromCryptoKey } from 'paseto/v3/local';
import type { Policy, Scope } from '../../main/ticker/policy.ts';
import { MemoryTokenStore } from '../../main/ticker/token-store.ts';
import { Tokens, type TokensOptions } from '../../main/ticker/tokens.ts';
import { anyCharacter } from '../support/broken-requests.ts';
import { afterTest } from '../support/cleanup.ts';
import { ManualClock } from '../support/manual-clock.ts';

const KEY = 'a secret of more than thirty-two bytes';
const scope: Scope = [{ name: 'user', group: 'user', actions: '*', resources: ['handler'], effect: 'allow' }];
const user = { user_id: 'demo', role: 'user', apiKey: 'key of demo' };
const identity = { actor: { id: 'user:demo', metadata: { role: 'user', user_id: 'demo' } }, scope };

let clock: ManualClock;

async function create(options: Partial<TokensOptions> = {}): Promise<Tokens> {
  const store = new MemoryTokenStore({ clock });
  const tokens = new Tokens({ key: KEY, lifetimeSeconds: 3600, store, clock, ...options });
  afterTest(() => tokens.store.close());
  return tokens;
}

/** Creates tokens on another node: with the same store, but without having issued any token. */
const onOtherNode = ({ store }: Tokens, options: Partial<TokensOptions> = {}) => create({ store, ...options });

const protocol = new LocalProtocol(EncryptFactory, DecryptFactory);

/** Derives the token key from a secret. Another program can read tokens with it. */
async function tokenKey(secret: string) {
  const bytes = hkdfSync('sha384', secret, '', 'ticker bearer token, paseto v3.local', 32);
  return LocalKeyFromCryptoKey(await crypto.subtle.importKey('raw', bytes, 'HKDF', false, ['deriveBits']));
}

describe('tokens', () => {
  beforeEach(() => {
    clock = new ManualClock(Date.now());
  });

  it('are PASETO v3.local and carry actor, policies and requester', async () => {
    const tokens = await create();
    const before = clock.now();
    const token = await tokens.issue(user, scope, '192.0.2.1');
    expect(token).to.match(/^v3\.local\.[\w-]+$/);

    const { claims } = await protocol.Decrypt(await tokenKey(KEY), token);
    expect(claims).to.deep.include({
      sub: 'user:demo',
      role: 'user',
      user_id: 'demo',
      scope,
      remote_address: '192.0.2.1',
    });
    expect(claims.jti).to.match(/^[\w-]{32}$/);
    const [iat, exp] = [Date.parse(String(claims.iat)), Date.parse(String(claims.exp))];
    expect(iat).to.be.within(before, clock.now());
    expect(exp - iat).to.equal(3_600_000);
    expect(token).to.not.include(Buffer.from('demo').toString('base64url'));
  });

  it('restore whatever user, role and address they were issued for', async () => {
    const tokens = await create();
    const other = await onOtherNode(tokens);
    const text = fc.string({ unit: anyCharacter });
    await fc.assert(
      fc.asyncProperty(text, text, text, async (user_id, role, address) => {
        const token = await tokens.issue({ user_id, role, apiKey: address }, scope, address);
        const verified = await other.verify(token);
        expect(verified).to.deep.include({ actor: { id: `user:${user_id}`, metadata: { role, user_id } }, scope });
        expect(await tokens.verify(token)).to.deep.equal(verified);
      }),
      { numRuns: 50 },
    );
  });

  it('are rejected when they are longer than any token issued for the user policy', async () => {
    const tokens = await create();
    const resources = Array.from({ length: 1000 }, (_, index) => `resource ${index}`);
    const token = await tokens.issue(user, [{ ...(scope[0] as Policy), resources }], '');
    expect(token.length).to.be.above(8192);
    expect(await tokens.verify(token)).to.equal(undefined);
  });

  it('are valid only where they were issued, even under the same key', async () => {
    const [first, second] = [await create(), await create()];
    const token = await first.issue(user, scope, '');
    expect(await first.verify(token)).to.deep.include(identity);
    expect(await second.verify(token)).to.equal(undefined);
    const { claims } = await protocol.Decrypt(await tokenKey(KEY), token);
    await second.store.put({ id: String(claims.jti), keyId: 'k', expiresAt: clock.now() + 60_000 });
    expect(await second.verify(token)).to.deep.include(identity);
  });

  it('are not believed without the claims of a token', async () => {
    const tokens = await create();
    const key = await tokenKey(KEY);
    const good = { jti: 'x', sub: 'user:demo', role: 'user', user_id: 'demo', scope: [] };
    await tokens.store.put({ id: 'x', keyId: 'k', expiresAt: clock.now() + 60_000 });
    const forge = async (claims: object) => tokens.verify(await protocol.Encrypt(key, claims as typeof good));
    expect(await forge(good)).to.deep.equal({ ...identity, scope: [], tokenId: 'x' });
    for (const name of Object.keys(good)) expect(await forge({ ...good, [name]: undefined }), name).to.equal(undefined);
    for (const wrong of [{ role: 1 }, { user_id: null }, { scope: '*' }, { scope: [{ effect: 'allow' }] }])
      expect(await forge({ ...good, ...wrong }), JSON.stringify(wrong)).to.equal(undefined);
  });

  it('end with their lifetime, used before or not, even while the store still holds them', async () => {
    const tokens = await create({ lifetimeSeconds: 60 });
    const [used, unused] = [await tokens.issue(user, scope, ''), await tokens.issue(user, scope, '')];
    const nodes = [tokens, await onOtherNode(tokens)];
    clock.advance(59_999);
    for (const node of nodes) expect(await node.verify(used)).to.deep.include(identity);
    clock.jump(1);
    for (const node of nodes) for (const token of [used, unused]) expect(await node.verify(token)).to.equal(undefined);
    expect(tokens.store.size).to.equal(2);
  });

  it('are decrypted and looked up in the store once until it removes them, on other nodes than the one that issued them only', async () => {
    const store = new MemoryTokenStore({ clock });
    const find = mock.method(store, 'find');
    const tokens = await create({ store });
    const token = await tokens.issue(user, scope, '');
    expect(await tokens.verify(token)).to.deep.include(identity);
    expect(find.mock.callCount()).to.equal(0);
    const other = await onOtherNode(tokens);
    const first = await other.verify(token);
    expect(await other.verify(token), 'the very same object').to.equal(first);
    expect(find.mock.callCount()).to.equal(1);
    clock.advance(3_600_000);
    await store.put({ id: first?.tokenId ?? '', keyId: 'k', expiresAt: clock.now() + 60_000 });
    const second = await other.verify(token);
    expect(second).to.deep.equal(first);
    expect(second, 'another object').to.not.equal(first);
  });
});
