import type { Awaitable } from '../awaitable.ts';

export interface TokenRecord {
  id: string;
  keyId: string;
  /** Unix time in milliseconds. */
  expiresAt: number;
}

export class TokenStoreUnavailable extends Error {
  override name = 'TokenStoreUnavailable';
}

export class TokenStoreFull extends Error {
  override name = 'TokenStoreFull';
}

/** Why a token was removed. An evicted token counts as revoked. */
export type RemovalReason = 'token revoked' | 'token expired';

export type OnRemove = (id: string, end: RemovalReason) => void;

/** Store of the valid tokens, which all have the same lifetime. */
export interface TokenStore {
  readonly size: number;
  readonly maxTokens: number;
  onRemove: OnRemove;
  /** Adds a token. May evict the oldest token of the API key. @throws {TokenStoreUnavailable | TokenStoreFull} */
  put(record: TokenRecord): Awaitable<void>;
  /** Whether this node knows the token and the token has not expired. @throws {TokenStoreUnavailable} */
  has(id: string): boolean;
  /** Like `has`, but also finds tokens issued by other nodes. @throws {TokenStoreUnavailable} */
  find(id: string): Awaitable<boolean>;
  /** Removes a token before it expires. @throws {TokenStoreUnavailable} */
  revoke(id: string): Awaitable<void>;
  close(): Awaitable<void>;
}
