import { hkdfSync, randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { mock } from 'node:test';
import { inspect } from 'node:util';
import { expect } from 'chai';
import fc from 'fast-check';
import { ClaimValidationError, type ConsumeOptions, InvalidTokenError, LocalProtocol } from 'paseto';
import { DecryptFactory, EncryptFactory, LocalKeyFromCryptoKey } from 'paseto/v3/local';
import type { Policy, Scope } from '../../main/ticker/policy.ts';
import { LocalKey, protocol } from '../../main/ticker/sync-paseto.ts';
import { keepTokens, MemoryTokenStore, TokenStoreFull, takeTokens } from '../../main/ticker/token-store.ts';
import { Tokens, type TokensOptions } from '../../main/ticker/tokens.ts';
import { anyCharacter } from '../support/broken-requests.ts';
import { afterTest, temporaryFolder } from '../support/cleanup.ts';
import { captureLog } from '../support/log.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { liveHeapBytes } from '../support/proc.ts';
import { itIsATokenStore } from './token-store-conformance.ts';

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

/** The operations of the `paseto` package, which use WebCrypto. Another program can read tokens with them. */
const reference = new LocalProtocol(EncryptFactory, DecryptFactory);

const referenceKeyOf = async (bytes: BufferSource) =>
  LocalKeyFromCryptoKey(await crypto.subtle.importKey('raw', bytes, 'HKDF', false, ['deriveBits']));

const tokenKey = await referenceKeyOf(hkdfSync('sha384', KEY, '', 'ticker bearer token, paseto v3.local', 32));

describe('tokens', () => {
  beforeEach(() => {
    clock = new ManualClock(Date.now());
  });

  it('are PASETO v3.local and carry actor, policies and requester', async () => {
    const tokens = await create();
    const token = await tokens.issue(user, scope, '192.0.2.1');
    expect(token).to.match(/^v3\.local\.[\w-]+$/);
    const { claims } = await reference.Decrypt(tokenKey, token);
    const actor = { sub: 'user:demo', role: 'user', user_id: 'demo' };
    expect(claims).to.deep.include({ ...actor, scope, remote_address: '192.0.2.1' });
    expect(claims.jti).to.match(/^[\w-]{32}$/);
    const times = [claims.iat, claims.exp].map((time) => Date.parse(String(time)));
    expect(times).to.deep.equal([clock.now(), clock.now() + 3_600_000]);
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
    const { claims } = await reference.Decrypt(tokenKey, token);
    await second.store.put({ id: String(claims.jti), keyId: 'k', expiresAt: clock.now() + 60_000 });
    expect(await second.verify(token)).to.deep.include(identity);
    mock.method(second.store, 'put', async () => Promise.reject(new TokenStoreFull()));
    expect(await second.issue(user, scope, '').catch((error) => error)).to.be.instanceOf(TokenStoreFull);
  });

  it('are not believed without the claims of a token', async () => {
    const tokens = await create();
    const good = { jti: 'x', sub: 'user:demo', role: 'user', user_id: 'demo', scope: [] };
    await tokens.store.put({ id: 'x', keyId: 'k', expiresAt: clock.now() + 60_000 });
    const forge = async (claims: object) => tokens.verify(await reference.Encrypt(tokenKey, claims as typeof good));
    expect(await forge(good)).to.deep.equal({ ...identity, scope: [], tokenId: 'x' });
    for (const name of Object.keys(good)) expect(await forge({ ...good, [name]: undefined }), name).to.equal(undefined);
    for (const wrong of [{ role: 1 }, { user_id: null }, { scope: '*' }, { scope: [{ effect: 'allow' }] }])
      expect(await forge({ ...good, ...wrong }), JSON.stringify(wrong)).to.equal(undefined);
  });

  it('end with their lifetime, used before or not, even while the store still holds them', async () => {
    const tokens = await create({ lifetimeSeconds: 60 });
    const [used, unused] = [await tokens.issue(user, scope, ''), await tokens.issue(user, scope, '')];
    const nodes = [tokens, await onOtherNode(tokens)];
    // By its clock, the tokens are issued in the future.
    nodes.push(await onOtherNode(tokens, { clock: new ManualClock(clock.now() - 60_000) }));
    clock.advance(59_999);
    for (const node of nodes) expect(await node.verify(used)).to.deep.include(identity);
    clock.jump(1);
    for (const node of nodes) for (const token of [used, unused]) expect(await node.verify(token)).to.equal(undefined);
    expect(tokens.store.size).to.equal(2);
  });

  it('are decrypted and looked up in the store once until it removes them, on other nodes than the one that issued them only, and leave no memory behind', async () => {
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
    const before = await liveHeapBytes();
    const long = [{ ...(scope[0] as Policy), name: 'x'.repeat(4000) }];
    for (let count = 0; count < 500; count++) await other.issue(user, long, '');
    clock.advance(3_600_000);
    expect(((await liveHeapBytes()) - before) / 500, 'bytes left of a token').to.be.below(2000);
    await store.put({ id: first?.tokenId ?? '', keyId: 'k', expiresAt: clock.now() + 60_000 });
    const second = await other.verify(token);
    expect(second).to.deep.equal(first);
    expect(second, 'another object').to.not.equal(first);
  });
});

const bytes = new Uint8Array(32).map((_, index) => index + 1);
const key = new LocalKey(bytes);
const referenceKey = await referenceKeyOf(bytes);

const exp = new Date(Date.now() + 3_600_000).toISOString();
const claims = { sub: 'user:demo', exp, scope: ['a', 'b'] };
const HEADER = 'v3.local.';

/** Decrypts a token with both implementations, expects the same error of both, and returns the error. */
async function errorOfBoth(token: string, options: ConsumeOptions<3> = {}): Promise<unknown> {
  const failure = (error: unknown) => error;
  const error = await protocol.Decrypt(key, token, options).then(() => undefined, failure);
  const expected = await reference.Decrypt(referenceKey, token, options).then(() => undefined, failure);
  expect(error, token).to.be.instanceOf(Error);
  expect((error as Error).constructor).to.equal((expected as Error).constructor);
  expect((error as Error).message).to.equal((expected as Error).message);
  return error;
}

function withPayload(change: (payload: Buffer) => Uint8Array, token: string): string {
  const changed = change(Buffer.from(token.slice(HEADER.length), 'base64url'));
  return HEADER + Buffer.from(changed).toString('base64url');
}

describe('synchronous PASETO v3.local', () => {
  it('never encrypts two tokens with the same nonce', async () => {
    const tokens = await Promise.all(Array.from({ length: 100 }, () => protocol.Encrypt(key, claims)));
    expect(new Set(tokens.map((token) => token.slice(HEADER.length, HEADER.length + 40))).size).to.equal(100);
  });

  it('refuses a token with any byte changed, and with bytes added or removed anywhere, and one of another key', async () => {
    const token = await protocol.Encrypt(key, claims);
    const { length } = Buffer.from(token.slice(HEADER.length), 'base64url');
    for (let at = 0; at < length; at++) {
      const altered = [
        withPayload((payload) => payload.with(at, (payload[at] as number) ^ (1 + (at % 255))), token),
        withPayload((payload) => payload.subarray(0, at), token),
        withPayload((payload) => Buffer.concat([payload.subarray(0, at), randomBytes(1), payload.subarray(at)]), token),
      ];
      for (const each of altered) expect(await errorOfBoth(each)).to.be.instanceOf(InvalidTokenError);
    }
    const error = await protocol.Decrypt(new LocalKey(bytes.with(31, 0)), token).catch((cause: unknown) => cause);
    expect(error).to.be.instanceOf(InvalidTokenError);
  });

  it('exchanges tokens with footer and implicit assertion with the package, and refuses a different footer or assertion', async () => {
    const footer = Buffer.from('footer');
    const implicitAssertion = Buffer.from('assertion');
    const token = await protocol.Encrypt(key, claims, { footer, implicitAssertion });
    const own = await protocol.Decrypt(key, token, { implicitAssertion });
    expect(own.claims).to.deep.include(claims);
    expect(await reference.Decrypt(referenceKey, token, { implicitAssertion })).to.deep.equal(own);
    const theirs = await reference.Encrypt(referenceKey, claims, { footer, implicitAssertion });
    expect((await protocol.Decrypt(key, theirs, { implicitAssertion })).claims).to.deep.include(claims);
    for (const altered of [`${token}A`, token.slice(0, token.lastIndexOf('.')), `${token.slice(0, -8)}Zm9vdGVS`])
      expect(await errorOfBoth(altered, { implicitAssertion })).to.be.instanceOf(InvalidTokenError);
    expect(await errorOfBoth(token)).to.be.instanceOf(InvalidTokenError);
    expect(await errorOfBoth(token, { implicitAssertion: footer })).to.be.instanceOf(InvalidTokenError);
  });

  it('refuses tokens that have expired, are not active yet, or were issued in the future', async () => {
    const token = await protocol.Encrypt(key, claims);
    expect(await errorOfBoth(token, { now: new Date(Date.parse(exp) + 1) })).to.be.instanceOf(ClaimValidationError);
    for (const claim of ['nbf', 'iat']) {
      const future = await protocol.Encrypt(key, { ...claims, [claim]: exp });
      expect(await errorOfBoth(future), claim).to.be.instanceOf(ClaimValidationError);
    }
  });

  it('does not show the key', () => {
    expect(inspect(key, { depth: 10, showHidden: true }) + JSON.stringify(key)).to.not.match(/1,\s*2,\s*3|0102/);
  });
});

describe('the token store in memory', () => {
  itIsATokenStore(async (options) => {
    const store = new MemoryTokenStore(options);
    afterTest(() => store.close());
    return store;
  });
});

describe('the file with the tokens of the last run', () => {
  it('can be read once, has no tokens if it is damaged, and is then deleted; it is not written in the place of a folder; both are logged', async () => {
    const { log, lines } = captureLog();
    const file = join(await temporaryFolder(), 'tokens.json');
    for (const content of ['{"records": [{"id"', '{}', '"text"', '{"key": 5, "records": []}']) {
      writeFileSync(file, content);
      expect(takeTokens(file, log), content).to.deep.equal({ records: [] });
      expect(lines.pop()?.msg).to.equal('the tokens of the last run cannot be used: users must sign in again');
      expect(existsSync(file)).to.equal(false);
    }
    expect([takeTokens(file, log), lines]).to.deep.equal([{ records: [] }, []]);
    const kept = { key: 'k', records: [{ id: 'a', keyId: 'k', expiresAt: 1 }] };
    keepTokens(file, kept, log);
    expect([takeTokens(file, log), takeTokens(file, log)]).to.deep.equal([kept, { records: [] }]);
    mkdirSync(file);
    keepTokens(file, kept, log);
    const message = 'the tokens cannot be kept: users must sign in again after the next start';
    expect(lines.map(({ msg }) => msg)).to.deep.equal([message]);
  });
});
