import { createHmac, hkdfSync, randomBytes } from 'node:crypto';
import type { ApiKeyOwner } from '../../db/api-keys.ts';
import type { Clock } from '../../workers/shared/clock.ts';
import { isScope, type Scope } from './policy.ts';
import { LocalKey, protocol } from './sync-paseto.ts';
import type { OnRemove, TokenRecord, TokenStore } from './token-store.ts';

export interface Identity {
  actor: { id: string; metadata: { role: string; user_id: string } };
  scope: Scope;
  tokenId: string;
}

export interface TokenUser extends ApiKeyOwner {
  /** API key, or another text whose tokens have a bound of their own. Undefined if the program vouches for the user. */
  apiKey: string | undefined;
}

/** Name under which the tokens that a user creates for tasks count. They never evict the token of an API key. */
export const createdBy = (userId: string) => `tokens created by ${userId}`;

export interface TokensOptions {
  /** Secret of at least 32 bytes. */
  key: string;
  lifetimeSeconds: number;
  store: TokenStore;
  clock: Clock;
  /** Called when a token is revoked, evicted or expired. */
  onEnd?: OnRemove;
}

/** Number of random bytes in a token id, which is 32 characters long in base64url, as the specification requires. */
const TOKEN_ID_BYTES = 24;
const KEY_ID_LENGTH = 16;
/** Start of the identifier under which the tokens of a user without an API key count. No digest has it. */
const NO_KEY = 'user:';
const DERIVED_KEY_BYTES = 32;
/** Maximum length of a token in characters. A token is longer only with a user policy of many kilobytes, and refused. */
const MAX_TOKEN_CHARACTERS = 8192;

/** Tolerated clock skew between nodes, in seconds. The token store checks the exact expiry. */
const CLOCK_TOLERANCE_SECONDS = 60;

/** Issues and verifies bearer tokens (PASETO v3.local). A valid token is unexpired and in the token store. */
export class Tokens {
  readonly lifetimeSeconds: number;
  readonly store: TokenStore;
  readonly #clock: Clock;
  readonly #key: LocalKey;
  readonly #digestKey: Uint8Array;
  /** Identities of issued and verified tokens, by token. An entry is deleted when the store removes the token. */
  readonly #verified = new Map<string, Identity>();
  readonly #textOf = new Map<string, string>();

  constructor({ key, lifetimeSeconds, store, clock, onEnd }: TokensOptions) {
    const derive = (purpose: string) => new Uint8Array(hkdfSync('sha384', key, '', purpose, DERIVED_KEY_BYTES));
    this.#key = new LocalKey(derive('ticker bearer token, paseto v3.local'));
    this.#digestKey = derive('ticker API key identifier');
    this.lifetimeSeconds = lifetimeSeconds;
    this.store = store;
    this.#clock = clock;
    store.onRemove = (id, end) => {
      this.#verified.delete(this.#textOf.get(id) ?? '');
      this.#textOf.delete(id);
      onEnd?.(id, end);
    };
  }

  /** Adds tokens that another process has issued under the same secret, if they need no API key or have one of `apiKeys`. */
  async restore(records: readonly TokenRecord[], apiKeys: readonly string[]): Promise<void> {
    const keyIds = new Set(apiKeys.map((apiKey) => this.#digest(apiKey)));
    for (const record of records)
      if (keyIds.has(record.keyId) || record.keyId.startsWith(NO_KEY)) await this.store.put(record);
  }

  /** @throws {TokenStoreUnavailable | TokenStoreFull} */
  async issue(
    user: TokenUser,
    scope: Scope,
    remoteAddress: string,
    lifetimeSeconds = this.lifetimeSeconds,
  ): Promise<string> {
    const id = randomBytes(TOKEN_ID_BYTES).toString('base64url');
    const issuedAt = this.#clock.now();
    const expiresAt = issuedAt + lifetimeSeconds * 1000;
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
    await this.store.put({ id, keyId: this.#keyId(user), expiresAt });
    const { sub, role, user_id } = claims;
    const identity = { actor: { id: sub, metadata: { role, user_id } }, scope, tokenId: id };
    if (token.length <= MAX_TOKEN_CHARACTERS && this.isLive(identity)) this.#remember(token, identity);
    return token;
  }

  /** Returns undefined if the token is missing or invalid, expired, or not stored. @throws {TokenStoreUnavailable} */
  async verify(token: string | undefined): Promise<Identity | undefined> {
    if (token === undefined) return undefined;
    const identity = this.#verified.get(token) ?? (await this.#decrypt(token));
    return identity !== undefined && this.isLive(identity) ? identity : undefined;
  }

  /** Whether the token of a verified identity is still valid. @throws {TokenStoreUnavailable} */
  isLive({ tokenId }: Identity): boolean {
    return this.store.has(tokenId);
  }

  /** Revokes the token of a verified identity. @throws {TokenStoreUnavailable} */
  async revoke({ tokenId }: Identity): Promise<void> {
    await this.store.revoke(tokenId);
  }

  async #decrypt(token: string): Promise<Identity | undefined> {
    if (token.length > MAX_TOKEN_CHARACTERS) return undefined;
    const now = new Date(this.#clock.now());
    const options = { clockTolerance: CLOCK_TOLERANCE_SECONDS, now };
    const decrypted = await protocol.Decrypt(this.#key, token, options).catch(() => undefined);
    if (decrypted === undefined) return undefined;
    const { jti, sub, role, user_id, scope } = decrypted.claims;
    const isComplete =
      jti !== undefined && sub !== undefined && typeof role === 'string' && typeof user_id === 'string';
    if (!isComplete || !isScope(scope)) return undefined;
    const identity = { actor: { id: sub, metadata: { role, user_id } }, scope, tokenId: jti };
    if (await this.store.find(jti)) this.#remember(token, identity);
    return identity;
  }

  #remember(token: string, identity: Identity): void {
    this.#verified.set(token, identity);
    this.#textOf.set(identity.tokenId, token);
  }

  #keyId({ apiKey, user_id }: TokenUser): string {
    return apiKey === undefined ? `${NO_KEY}${this.#digest(user_id)}` : this.#digest(apiKey);
  }

  /** Returns a keyed hash of an API key, which does not reveal the key and is the same on all nodes. */
  #digest(apiKey: string): string {
    return createHmac('sha256', this.#digestKey).update(apiKey).digest('base64url').slice(0, KEY_ID_LENGTH);
  }
}
