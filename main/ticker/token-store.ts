import type { Awaitable } from '../awaitable.ts';

/** The token store's entry for an issued token. */
export interface TokenRecord {
  /** The token's identifier (`jti`). */
  id: string;
  /** Identifier of the API key that the token was issued for. */
  keyId: string;
  /** Time of expiry in milliseconds since the epoch. */
  expiresAt: number;
}

/** Thrown if the token store is closed or its servers do not respond. */
export class TokenStoreUnavailable extends Error {
  override name = 'TokenStoreUnavailable';
}

/** Thrown if the token store is full. */
export class TokenStoreFull extends Error {
  override name = 'TokenStoreFull';
}

/** Why a store removed a token. An evicted token counts as revoked. */
export type RemovalReason = 'token revoked' | 'token expired';

/** Called for every token that a store removes. */
export type OnRemove = (id: string, end: RemovalReason) => void;

/** Store of the valid tokens. All tokens of a store have the same lifetime. */
export interface TokenStore {
  /** Number of tokens known to this node. */
  readonly size: number;
  readonly maxTokens: number;
  onRemove: OnRemove;
  /**
   * Adds a token. If the API key then has too many tokens, evicts the key's oldest.
   *
   * @throws {TokenStoreUnavailable | TokenStoreFull}
   */
  put(record: TokenRecord): Awaitable<void>;
  /** Whether this node knows the token and the token has not expired. @throws {TokenStoreUnavailable} if closed */
  has(id: string): boolean;
  /**
   * Like `has`, but also finds tokens issued by other nodes, and remembers them for `has`.
   *
   * @throws {TokenStoreUnavailable}
   */
  find(id: string): Awaitable<boolean>;
  /** Removes a token before it expires. @throws {TokenStoreUnavailable} */
  revoke(id: string): Awaitable<void>;
  /** Makes the store unavailable and clears the tokens known to this node. */
  close(): Awaitable<void>;
}
