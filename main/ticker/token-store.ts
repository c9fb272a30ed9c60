import type { Awaitable } from '../awaitable.ts';

/** What the store keeps of a token that was issued. */
export interface TokenRecord {
  /** The token's identifier (`jti`). */
  id: string;
  /** Identifier of the API key that the token was issued for. */
  keyId: string;
  /** Milliseconds since the epoch. */
  expiresAt: number;
}

/** The store cannot be obtained. */
export class TokenStoreUnavailable extends Error {
  override name = 'TokenStoreUnavailable';
}

/** The store has reached its bound on all tokens and takes no further one. */
export class TokenStoreFull extends Error {
  override name = 'TokenStoreFull';
}

/** How a token leaves the store before that is closed. An evicted token counts as revoked. */
export type TokenEnd = 'token revoked' | 'token expired';

/** Told of every token that leaves a store before that is closed. */
export type OnRemove = (id: string, end: TokenEnd) => void;

/** The tokens that are good. All of one store have the same lifetime. */
export interface TokenStore {
  /** How many tokens it knows of. */
  readonly size: number;
  /** Most tokens that the store holds. */
  readonly maxTokens: number;
  /** To be set by who wants to be told. */
  onRemove: OnRemove;
  /**
   * Adds a token. Past the bound on the tokens of its API key the oldest of that key is evicted.
   *
   * @throws {TokenStoreUnavailable | TokenStoreFull}
   */
  put(record: TokenRecord): Awaitable<void>;
  /** Whether the token is known here and has not expired. @throws {TokenStoreUnavailable} once it is closed */
  has(id: string): boolean;
  /** Whether the token is good, known here or not; `has` knows of it from then on. @throws {TokenStoreUnavailable} */
  find(id: string): Awaitable<boolean>;
  /** Lets go of a token before its time. @throws {TokenStoreUnavailable} */
  revoke(id: string): Awaitable<void>;
  /** Makes the store unavailable and lets go of every token that is known here. */
  close(): Awaitable<void>;
}
