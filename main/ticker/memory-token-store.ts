import {
  type OnRemove,
  type RemovalReason,
  type TokenRecord,
  type TokenStore,
  TokenStoreFull,
  TokenStoreUnavailable,
} from './token-store.ts';
import { TokensByKey } from './tokens-by-key.ts';

export interface MemoryTokenStoreOptions {
  maxTokens?: number;
  maxTokensPerKey?: number;
}

/** Maximum delay of a Node timer. If the next token expires later, the timer is started again. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/**
 * Valid tokens, in memory. If an API key has `maxTokensPerKey` tokens, a new one evicts its oldest. Otherwise a new token is refused
 * if there are `maxTokens`, so that no key evicts the tokens of another. All tokens have the same lifetime and expire in order.
 */
export class MemoryTokenStore implements TokenStore {
  onRemove: OnRemove = () => {};
  readonly maxTokens: number;
  readonly #records = new Map<string, TokenRecord>();
  readonly #byKey: TokensByKey;
  #timer: NodeJS.Timeout | undefined;
  #closed = false;

  constructor({ maxTokens = 100_000, maxTokensPerKey = 1000 }: MemoryTokenStoreOptions = {}) {
    this.maxTokens = maxTokens;
    this.#byKey = new TokensByKey(maxTokensPerKey);
  }

  get size(): number {
    return this.#records.size;
  }

  put(record: TokenRecord): void {
    this.insert(record, this.nextOrder(record.keyId));
  }

  ids(): IterableIterator<string> {
    return this.#records.keys();
  }

  isFull(keyId: string): boolean {
    return this.#byKey.isFull(keyId);
  }

  nextOrder(keyId: string): number {
    return this.#byKey.next(keyId);
  }

  /**
   * Adds a token at position `order` among the tokens of its key.
   *
   * @returns the identifier of the evicted token, which is the added one if the key has enough newer tokens
   */
  insert(record: TokenRecord, order: number): string | undefined {
    this.#check();
    const { id, keyId, expiresAt } = record;
    if (this.#records.has(id)) return undefined;
    if (this.#records.size >= this.maxTokens && !this.isFull(keyId))
      throw new TokenStoreFull(`the token store holds ${this.maxTokens} tokens`);
    this.#records.set(id, record);
    if (this.#timer === undefined) this.#arm(expiresAt);
    const evicted = this.#byKey.add({ id, keyId, order });
    if (evicted !== undefined) this.revoke(evicted.id);
    return evicted?.id;
  }

  has(id: string): boolean {
    this.#check();
    const record = this.#records.get(id);
    return record !== undefined && record.expiresAt > Date.now();
  }

  /** The same as `has`, because this store is not shared. */
  find(id: string): boolean {
    return this.has(id);
  }

  revoke(id: string): void {
    this.#check();
    const record = this.#records.get(id);
    if (record !== undefined) this.#remove(record, 'token revoked');
  }

  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
    this.#records.clear();
    this.#byKey.clear();
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
    for (const record of this.#records.values()) {
      if (record.expiresAt > now) {
        this.#arm(record.expiresAt);
        return;
      }
      this.#remove(record, 'token expired');
    }
  }

  #remove(record: TokenRecord, end: RemovalReason): void {
    this.#records.delete(record.id);
    this.#byKey.delete(record);
    this.onRemove(record.id, end);
  }
}
