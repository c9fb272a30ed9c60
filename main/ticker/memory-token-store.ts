import {
  type OnRemove,
  type TokenRecord,
  type TokenStore,
  TokenStoreFull,
  TokenStoreUnavailable,
} from './token-store.ts';

export interface MemoryTokenStoreOptions {
  maxTokens: number;
  /** Told of every token that leaves. */
  onRemove: OnRemove;
}

/** Longest wait of a Node timer; a later expiry is looked at again when this is over. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/**
 * The tokens that are good, in memory. What has expired leaves by itself; past `maxTokens` no further one is
 * taken, so that a flood of new tokens cannot drive out those in use.
 *
 * All tokens of one store have the same lifetime: they expire in the order in which they came.
 */
export class MemoryTokenStore implements TokenStore {
  onRemove: OnRemove;
  readonly #maxTokens: number;
  readonly #records = new Map<string, TokenRecord>();
  #timer: NodeJS.Timeout | undefined;
  #closed = false;

  constructor({ maxTokens = 100_000, onRemove = () => {} }: Partial<MemoryTokenStoreOptions> = {}) {
    this.#maxTokens = maxTokens;
    this.onRemove = onRemove;
  }

  get size(): number {
    return this.#records.size;
  }

  /** @throws {TokenStoreUnavailable | TokenStoreFull} */
  put(record: TokenRecord): void {
    this.#check();
    if (this.#records.size >= this.#maxTokens)
      throw new TokenStoreFull(`the token store holds ${this.#maxTokens} tokens`);
    this.#records.set(record.id, record);
    if (this.#timer === undefined) this.#arm(record.expiresAt);
  }

  /**
   * Whether the token is in the store and has not expired.
   *
   * @throws {TokenStoreUnavailable}
   */
  has(id: string): boolean {
    this.#check();
    const record = this.#records.get(id);
    return record !== undefined && record.expiresAt > Date.now();
  }

  /** The same as `has`: there is nowhere else to look. @throws {TokenStoreUnavailable} */
  find(id: string): boolean {
    return this.has(id);
  }

  /** Lets go of a token before its time. @throws {TokenStoreUnavailable} */
  revoke(id: string): void {
    this.#check();
    if (this.#records.delete(id)) this.onRemove(id, 'token revoked');
  }

  /** Makes the store unavailable and lets go of every token. */
  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
    this.#records.clear();
  }

  #check(): void {
    if (this.#closed) throw new TokenStoreUnavailable('the token store is closed');
  }

  #arm(expiresAt: number): void {
    const wait = Math.min(Math.max(expiresAt - Date.now(), 1), MAX_TIMER_MS);
    this.#timer = setTimeout(() => this.#dropExpired(), wait).unref();
  }

  #dropExpired(): void {
    this.#timer = undefined;
    const now = Date.now();
    for (const { id, expiresAt } of this.#records.values()) {
      if (expiresAt > now) {
        this.#arm(expiresAt);
        return;
      }
      this.#records.delete(id);
      this.onRemove(id, 'token expired');
    }
  }
}
