import { createHmac, hkdfSync, randomBytes } from 'node:crypto';
import { type Claims, LocalProtocol } from 'paseto';
import { DecryptFactory, EncryptFactory, type LocalKey, LocalKeyFromCryptoKey } from 'paseto/v3/local';
import { isScope, type Scope } from './policy.ts';
import type { OnRemove, TokenStore } from './token-store.ts';

/** Who acts, and what they may do: what a token says, restored in each request that bears it. */
export interface Identity {
  actor: { id: string; metadata: { role: string; user_id: string } };
  scope: Scope;
  /** The `jti` of the token. */
  tokenId: string;
}

/** Whom a token is issued for. */
export interface TokenUser {
  user_id: string;
  role: string;
  /** The API key that is exchanged for the token. */
  apiKey: string;
}

export interface TokensOptions {
  /** Secret of at least 32 bytes; undefined makes a random one, with which tokens end with the process. */
  key: string | undefined;
  lifetimeSeconds: number;
  /** Where they are kept; closed with them. */
  store: TokenStore;
  /** Told of every token that ends before the store does. */
  onEnd?: OnRemove;
}

interface Verified {
  id: string;
  identity: Identity;
}

/** The specification's token length setting. */
const TOKEN_LENGTH = 32;
const KEY_ID_LENGTH = 16;
/** Longer than any token that is issued here; a longer text is not worth the decryption. */
const MAX_TOKEN_CHARACTERS = 8192;

/** By how much the clock of the node that issued a token may be ahead. Its end is the store's to say, to the second. */
const CLOCK_TOLERANCE_SECONDS = 60;

const protocol = new LocalProtocol(EncryptFactory, DecryptFactory);

/**
 * Issues and checks bearer tokens: PASETO v3.local (AES-256-CTR and HMAC-SHA384), good while they verify and
 * are in the token store.
 */
export class Tokens {
  readonly lifetimeSeconds: number;
  readonly store: TokenStore;
  readonly #key: LocalKey;
  readonly #digestKey: Uint8Array;
  /**
   * Tokens that were decrypted once, by their text, so that only the first use of each costs a decryption.
   * A token leaves with its record in the store, whose bound is therefore this map's too.
   */
  readonly #verified = new Map<string, Verified>();
  readonly #textOf = new Map<string, string>();
  /** Decryptions under way, so that a thousand clients that come at once with one token wait for one. */
  readonly #decrypting = new Map<string, Promise<Verified | undefined>>();

  private constructor(key: LocalKey, digestKey: Uint8Array, { lifetimeSeconds, store, onEnd }: TokensOptions) {
    this.#key = key;
    this.#digestKey = digestKey;
    this.lifetimeSeconds = lifetimeSeconds;
    this.store = store;
    store.onRemove = (id, end) => {
      this.#forget(id);
      onEnd?.(id, end);
    };
  }

  static async create(options: TokensOptions): Promise<Tokens> {
    const secret = options.key ?? randomBytes(64);
    const bytes = hkdfSync('sha384', secret, '', 'ticker bearer token, paseto v3.local', 32);
    const key = await crypto.subtle.importKey('raw', bytes, 'HKDF', false, ['deriveBits']);
    const digestKey = new Uint8Array(hkdfSync('sha384', secret, '', 'ticker API key identifier', 32));
    return new Tokens(LocalKeyFromCryptoKey(key), digestKey, options);
  }

  /**
   * @param user whom the token is for
   * @param scope what it allows
   * @param remoteAddress where it was asked for; kept in the token's metadata
   * @throws {TokenStoreUnavailable | TokenStoreFull}
   */
  async issue(user: TokenUser, scope: Scope, remoteAddress: string): Promise<string> {
    const id = randomText(TOKEN_LENGTH);
    const issuedAt = Date.now();
    const expiresAt = issuedAt + this.lifetimeSeconds * 1000;
    const claims = {
      jti: id,
      sub: `user:${user.user_id}`,
      iat: new Date(issuedAt).toISOString(),
      exp: new Date(expiresAt).toISOString(),
      role: user.role,
      user_id: user.user_id,
      scope: scope.map((policy) => ({ ...policy })),
      remote_address: remoteAddress,
    };
    const token = await protocol.Encrypt(this.#key, claims);
    await this.store.put({ id, keyId: this.#keyId(user.apiKey), expiresAt });
    return token;
  }

  /**
   * Whom `token` stands for, or undefined when it is malformed, was not issued here, has expired or is not in
   * the store.
   *
   * @throws {TokenStoreUnavailable}
   */
  async verify(token: string): Promise<Identity | undefined> {
    const verified = this.#verified.get(token) ?? (await this.#decryptOnce(token));
    return verified !== undefined && this.store.has(verified.id) ? verified.identity : undefined;
  }

  /** Whether the token of an identity that was verified here is still good. @throws {TokenStoreUnavailable} */
  isLive({ tokenId }: Identity): boolean {
    return this.store.has(tokenId);
  }

  /** Ends the token of an identity at once. @throws {TokenStoreUnavailable} */
  async revoke({ tokenId }: Identity): Promise<void> {
    await this.store.revoke(tokenId);
  }

  /** Ends the store; no token is good after this. */
  async close(): Promise<void> {
    await this.store.close();
    this.#verified.clear();
    this.#textOf.clear();
  }

  async #decryptOnce(token: string): Promise<Verified | undefined> {
    if (token.length > MAX_TOKEN_CHARACTERS) return undefined;
    const decrypting = this.#decrypting.get(token) ?? this.#decrypt(token);
    this.#decrypting.set(token, decrypting);
    try {
      return await decrypting;
    } finally {
      this.#decrypting.delete(token);
    }
  }

  async #decrypt(token: string): Promise<Verified | undefined> {
    let claims: Claims;
    try {
      ({ claims } = await protocol.Decrypt(this.#key, token, { clockTolerance: CLOCK_TOLERANCE_SECONDS }));
    } catch {
      return undefined;
    }
    const { jti, sub, role, user_id, scope } = claims;
    if (jti === undefined || sub === undefined || typeof role !== 'string' || typeof user_id !== 'string')
      return undefined;
    if (!isScope(scope)) return undefined;
    const verified = { id: jti, identity: { actor: { id: sub, metadata: { role, user_id } }, scope, tokenId: jti } };
    if (await this.store.find(jti)) {
      this.#verified.set(token, verified);
      this.#textOf.set(jti, token);
    }
    return verified;
  }

  /** Identifier of an API key in the token store, the same on all nodes. Tells nothing about the key without the secret. */
  #keyId(apiKey: string): string {
    return createHmac('sha256', this.#digestKey).update(apiKey).digest('base64url').slice(0, KEY_ID_LENGTH);
  }

  #forget(id: string): void {
    const text = this.#textOf.get(id);
    if (text === undefined) return;
    this.#textOf.delete(id);
    this.#verified.delete(text);
  }
}

/** `length` random characters of the base64url alphabet: six bits each. */
function randomText(length: number): string {
  return randomBytes(Math.ceil((length * 6) / 8))
    .toString('base64url')
    .slice(0, length);
}
