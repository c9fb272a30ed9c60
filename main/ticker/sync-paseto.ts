import {
  createCipheriv,
  createDecipheriv,
  createHmac,
  createSecretKey,
  type KeyObject,
  randomBytes,
  timingSafeEqual,
} from 'node:crypto';
import {
  InvalidTokenError,
  type Key,
  LocalDecrypt,
  LocalEncrypt,
  LocalProtocol,
  type LocalProtocolInstance,
  PAE,
} from 'paseto';

const HEADER = Buffer.from('v3.local.');
const NONCE_BYTES = 32;
const TAG_BYTES = 48;
/** Size of the AES-256 key. The other 16 bytes of the derived key are the initial counter. */
const CIPHER_KEY_BYTES = 32;
/** Number of the first block of HKDF-Expand, and the only one, because each derived key has the size of a SHA-384 hash. */
const FIRST_BLOCK = Buffer.of(1);

/** Symmetric key of 32 bytes for {@link protocol}. */
export class LocalKey implements Key {
  readonly algorithm = { name: 'PASETO v3.local' };
  readonly type = 'secret';
  readonly extractable = false;
  /** Result of HKDF-Extract with SHA-384 and no salt (RFC 5869). Computed once, because it does not depend on the token. */
  readonly pseudorandomKey: KeyObject;

  constructor(bytes: Uint8Array) {
    this.pseudorandomKey = createSecretKey(createHmac('sha384', '').update(bytes).digest());
  }
}

// Named, because TypeScript would write the inferred type of `protocol` as a declaration of 750 kB.
type Operations = readonly [ReturnType<typeof LocalEncrypt<3, LocalKey>>, ReturnType<typeof LocalDecrypt<3, LocalKey>>];

/**
 * PASETO v3.local with the synchronous functions of `node:crypto`. The `paseto` package's own operations use WebCrypto,
 * whose six calls per token each wait for the thread pool, which takes several times as long as the cryptography. The
 * package parses and formats tokens, encodes the authenticated data, and validates claims.
 */
export const protocol: LocalProtocolInstance<Operations> = new LocalProtocol(
  LocalEncrypt<3, LocalKey>({ version: 3, run: encrypt }),
  LocalDecrypt<3, LocalKey>({ version: 3, run: decrypt }),
);

/** Returns the payload: nonce, ciphertext and authentication tag. `async`, because the package requires a promise. */
async function encrypt(
  key: LocalKey,
  plaintext: Uint8Array,
  footer: Uint8Array,
  implicitAssertion: Uint8Array,
): Promise<Uint8Array> {
  const nonce = randomBytes(NONCE_BYTES);
  const { cipherKey, counter, authenticationKey } = deriveKeys(key, nonce);
  const ciphertext = createCipheriv('aes-256-ctr', cipherKey, counter).update(plaintext);
  const tag = authenticate(authenticationKey, [HEADER, nonce, ciphertext, footer, implicitAssertion]);
  return Buffer.concat([nonce, ciphertext, tag]);
}

/** Returns the plaintext. @throws {InvalidTokenError} if the payload is truncated, altered or of another key */
async function decrypt(
  key: LocalKey,
  payload: Uint8Array,
  footer: Uint8Array,
  implicitAssertion: Uint8Array,
): Promise<Uint8Array> {
  if (payload.length < NONCE_BYTES + TAG_BYTES) throw new InvalidTokenError('Truncated v3.local payload');
  const nonce = payload.subarray(0, NONCE_BYTES);
  const ciphertext = payload.subarray(NONCE_BYTES, -TAG_BYTES);
  const { cipherKey, counter, authenticationKey } = deriveKeys(key, nonce);
  const tag = authenticate(authenticationKey, [HEADER, nonce, ciphertext, footer, implicitAssertion]);
  if (!timingSafeEqual(tag, payload.subarray(-TAG_BYTES))) throw new InvalidTokenError('Token authentication failed');
  return createDecipheriv('aes-256-ctr', cipherKey, counter).update(ciphertext);
}

/** Derives the keys of one token from its nonce, each by HKDF-Expand. */
function deriveKeys({ pseudorandomKey }: LocalKey, nonce: Uint8Array) {
  const expand = (purpose: string) =>
    createHmac('sha384', pseudorandomKey).update(purpose).update(nonce).update(FIRST_BLOCK).digest();
  const encryption = expand('paseto-encryption-key');
  return {
    cipherKey: encryption.subarray(0, CIPHER_KEY_BYTES),
    counter: encryption.subarray(CIPHER_KEY_BYTES),
    authenticationKey: expand('paseto-auth-key-for-aead'),
  };
}

function authenticate(key: Uint8Array, pieces: readonly Uint8Array[]): Buffer {
  return createHmac('sha384', key).update(PAE(pieces)).digest();
}
