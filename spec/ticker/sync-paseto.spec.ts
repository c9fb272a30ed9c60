import { randomBytes } from 'node:crypto';
import { inspect } from 'node:util';
import { expect } from 'chai';
import { ClaimValidationError, type ConsumeOptions, InvalidTokenError, LocalProtocol } from 'paseto';
import { DecryptFactory, EncryptFactory, LocalKeyFromCryptoKey } from 'paseto/v3/local';
import { LocalKey, protocol } from '../../main/ticker/sync-paseto.ts';

/** The `paseto` package's own operations, which use WebCrypto. */
const reference = new LocalProtocol(EncryptFactory, DecryptFactory);

const bytes = new Uint8Array(32).map((_, index) => index + 1);
const key = new LocalKey(bytes);
const referenceKey = LocalKeyFromCryptoKey(await crypto.subtle.importKey('raw', bytes, 'HKDF', false, ['deriveBits']));

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
    const shown = inspect(key, { depth: 10, showHidden: true }) + JSON.stringify(key);
    expect(shown).to.not.match(/1,\s*2,\s*3|0102/);
  });
});
